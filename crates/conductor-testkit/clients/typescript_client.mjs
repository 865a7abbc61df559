// A client of the TypeScript SDK, version 1 or 2, that a test controls: it reads commands from stdin and writes results to stdout, one
// JSON object per line.
//
// typescript_client.mjs --sdk 1|2 --era legacy|modern|auto [--name N] [--answer accept|decline] [--token T] [--oauth SCOPE [--keep FILE]] stdio PROGRAM ARGS... | http URL
import { createInterface } from "node:readline";

const given = { sdk: "1", era: "legacy" };
const words = process.argv.slice(2);
while (words[0].startsWith("--")) given[words.shift().slice(2)] = words.shift();
const [kind, ...rest] = words;

const one = given.sdk === "1";
const { Client } = await import(one ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = await import(one ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio");
const { StreamableHTTPClientTransport } = await import(
  one ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client"
);

const capabilities = given.answer ? { elicitation: { form: {} } } : {};
const mode = given.era === "modern" ? { pin: "2026-07-28" } : given.era;
const client = new Client({ name: given.name ?? "typescript", version: "1" }, { capabilities, versionNegotiation: { mode } });
const asked = [];
if (given.answer) {
  const request = one ? (await import("@modelcontextprotocol/sdk/types.js")).ElicitRequestSchema : "elicitation/create";
  client.setRequestHandler(request, async ({ params }) => {
    asked.push(params.message);
    return given.answer === "accept" ? { action: "accept", content: { approve: true } } : { action: "decline" };
  });
}
let authProvider;
if (given.oauth) {
  const { TestProvider } = await import("./oauth_provider.mjs");
  authProvider = new TestProvider(given.oauth, given.keep);
}
const transport = () =>
  kind === "stdio"
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1) })
    : new StreamableHTTPClientTransport(new URL(rest[0]), {
        authProvider, requestInit: { headers: given.token ? { Authorization: `Bearer ${given.token}` } : {} },
      });
const first = transport();
try {
  await client.connect(first);
} catch (fault) {
  // The SDK has found the authorization server, registered the client and asked for the code.
  if (!authProvider?.code) throw fault;
  await first.finishAuth(authProvider.code);
  await client.close().catch(() => {});
  await client.connect(transport());
}

async function perform(wish) {
  switch (wish.do) {
    case "list":
      return { tools: (await client.listTools()).tools.map((tool) => tool.name).sort() };
    case "call": {
      const result = await client.callTool({ name: wish.name, arguments: wish.arguments });
      return { failed: result.isError === true, value: result.structuredContent };
    }
    case "read":
      return { text: (await client.readResource({ uri: wish.uri })).contents[0].text };
    case "prompt":
      return { text: (await client.getPrompt({ name: wish.name, arguments: wish.arguments })).messages[0].content.text };
    default:
      return { asked, steps: authProvider?.steps ?? [] };
  }
}

const tell = (value) => process.stdout.write(JSON.stringify(value) + "\n");
tell({ version: client.getNegotiatedProtocolVersion?.() ?? null });
for await (const line of createInterface({ input: process.stdin })) {
  try {
    tell(await perform(JSON.parse(line)));
  } catch (fault) {
    tell({ thrown: fault.code ?? 0, message: String(fault.message) });
  }
}
await client.close();
process.exit(0);
