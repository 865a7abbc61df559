// The part of an OAuth client that the SDK leaves to the application: storing the registration and
// the tokens, and opening the browser. Here a few requests with cookies replace the browser,
// because the authorization server of the tests shows no forms.
import { writeFileSync } from "node:fs";

const REDIRECT = "http://127.0.0.1:9/callback";

export class TestProvider {
  constructor(scope, file) {
    this.scope = scope;
    this.file = file;
    this.steps = [];
  }

  get redirectUrl() {
    return REDIRECT;
  }

  get clientMetadata() {
    return {
      client_name: `a client for ${this.scope}`, application_type: "native", redirect_uris: [REDIRECT], grant_types: ["authorization_code"],
      response_types: ["code"], token_endpoint_auth_method: "none", scope: this.scope,
    };
  }

  clientInformation() {
    return this.client;
  }

  saveClientInformation(client) {
    this.steps.push("registered");
    this.client = client;
  }

  tokens() {
    return this.kept;
  }

  saveTokens(tokens) {
    this.steps.push("token");
    this.kept = tokens;
    if (this.file) writeFileSync(this.file, tokens.access_token);
  }

  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }

  codeVerifier() {
    return this.verifier;
  }

  saveDiscoveryState(state) {
    this.discovered = state;
  }

  discoveryState() {
    return this.discovered;
  }

  /** Follows the redirects of the authorization server until it sends the code to the client. */
  async redirectToAuthorization(start) {
    this.steps.push(`authorize ${start.searchParams.get("code_challenge_method")} ${start.searchParams.get("resource")}`);
    const cookies = new Map();
    let url = new URL(start);
    for (let hop = 0; hop < 20; hop += 1) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
      const answer = await fetch(url, { redirect: "manual", headers: cookie ? { cookie } : {} });
      for (const line of answer.headers.getSetCookie()) {
        const [pair] = line.split(";");
        const at = pair.indexOf("=");
        cookies.set(pair.slice(0, at), pair.slice(at + 1));
      }
      const next = answer.headers.get("location");
      if (!next) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`);
      url = new URL(next, url);
      if (url.href.startsWith(REDIRECT)) {
        this.code = url.searchParams.get("code");
        this.issuer = url.searchParams.get("iss");
        if (!this.code) throw new Error(`no code: ${url.searchParams.get("error")} ${url.searchParams.get("error_description")}`);
        return;
      }
    }
    throw new Error("too many redirects");
  }
}
