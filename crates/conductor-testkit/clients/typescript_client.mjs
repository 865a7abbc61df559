// A whole session of the TypeScript SDK (the 1.x line) over stdio or HTTP, and every error code as a result it does not throw on.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, ...rest] = process.argv.slice(2);
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1) })
    : new StreamableHTTPClientTransport(new URL(rest[0]));
const client = new Client({ name: "ts", version: "1" }, { capabilities: {} });
await client.connect(transport);
const tools = await client.listTools();
const good = await client.callTool({ name: "test_echo", arguments: { text: "hi" } });
const codes = {};
for (const code of [
  "BAD_INPUT", "NOT_FOUND", "STALE_REFERENCE", "WRONG_TYPE", "UNSUPPORTED", "SDK_REJECTED", "DENIED", "APPROVAL_REQUIRED", "PLAN_EXPIRED",
  "PLAN_STALE", "RATE_LIMITED", "PIN_MISMATCH", "AUDIT_UNAVAILABLE", "BUSY", "HOST_OFFLINE", "TIMEOUT", "INTERNAL", "CIRCUIT_OPEN",
]) {
  const result = await client.callTool({ name: "test_fail_effect", arguments: { code } });
  codes[code] = [result.isError, result.structuredContent.code, typeof result.structuredContent.hint];
}
const resource = await client.readResource({ uri: "test://echo" });
const prompt = await client.getPrompt({ name: "say", arguments: { text: "hi" } });
let unknown = "did not throw";
try {
  await client.callTool({ name: "no_such_tool", arguments: {} });
} catch (error) {
  unknown = error.code;
}
console.log(
  JSON.stringify({
    tools: tools.tools.map((tool) => tool.name).sort(),
    good: good.structuredContent,
    codes,
    resource: resource.contents[0].text,
    prompt: prompt.messages[0].content.text,
    unknown,
  }),
);
await client.close();
process.exit(0);
