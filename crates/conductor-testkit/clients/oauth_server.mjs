// A real authorization server (oidc-provider) on loopback, for tests.
// Usage: node oauth_server.mjs ACCOUNT RESOURCE...
//
// Every sign-in uses ACCOUNT, without a form. A requested scope is granted if it is a word of the
// client's name, and rejected otherwise. Tokens are JWTs for one of the resources. `POST /forge`
// signs any claims with the key of the server; a real server has no such route. Prints its issuer
// when it is ready.
import { createServer } from "node:http";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { Provider } from "oidc-provider";

const [account, ...resources] = process.argv.slice(2);
const SCOPES = ["studio.modes", "studio.trace", "studio.nothing"];

const { privateKey } = await generateKeyPair("ES256", { extractable: true });
const jwk = { ...(await exportJWK(privateKey)), kid: "first", use: "sig", alg: "ES256" };

const server = createServer();
// A slow machine must not close a connection that the client is about to use again.
server.keepAliveTimeout = 120_000;
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  jwks: { keys: [jwk] },
  scopes: ["openid", ...SCOPES],
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  findAccount: (_context, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ["a key for tests"] },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_context, resource) => {
        if (!resources.includes(resource)) throw new Error(`unknown resource ${resource}`);
        return { scope: SCOPES.join(" "), audience: resource, accessTokenFormat: "jwt", accessTokenTTL: 3600, jwt: { sign: { alg: "ES256" } } };
      },
    },
  },
});

provider.use(async (context, next) => {
  if (context.path === "/forge") {
    let body = "";
    for await (const part of context.req) body += part;
    const { header, claims } = JSON.parse(body);
    context.body = await new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid: "first", typ: "at+jwt", ...header }).sign(privateKey);
    return;
  }
  if (!context.path.startsWith("/interaction/")) return next();
  const { prompt, params, session, grantId } = await provider.interactionDetails(context.req, context.res);
  let result;
  if (prompt.name === "login") {
    result = { login: { accountId: account } };
  } else {
    const grant = (grantId && await provider.Grant.find(grantId)) || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(" "));
    const { clientName } = await provider.Client.find(params.client_id);
    const wished = new Set(clientName.split(" "));
    for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
      grant.addResourceScope(resource, scopes.filter((it) => wished.has(it)).join(" "));
      grant.rejectResourceScope(resource, scopes.filter((it) => !wished.has(it)).join(" "));
    }
    result = { consent: { grantId: await grant.save() } };
  }
  context.respond = false;
  await provider.interactionFinished(context.req, context.res, result, { mergeWithLastSubmission: true });
});

server.on("request", provider.callback());
// Ignore write errors: the test may have closed its end of the pipe.
process.stdout.on("error", () => {});
process.stdout.write(`${JSON.stringify({ issuer })}\n`);
