// Searches sounds on Freesound, or on a server with the same API, and lists them with their licences.
//
//   conductor secrets set freesound.token --host freesound.org
//   conductor plugins enable freesound --net freesound.org

export default class Freesound {
  name = "freesound";
  version = "1.0.0";
  description = "Searches sounds and lists their licences.";

  configSchema = {
    type: "object",
    additionalProperties: false,
    required: ["token"],
    properties: {
      token: { type: "string", secret: true, description: "Your API key" },
      base: { type: "string", description: "Base URL of the API" },
      page_size: { type: "integer", minimum: 1, maximum: 50 },
    },
  };

  tools = [
    {
      name: "freesound.search",
      description: "Lists sounds that match the words, shortest first, with id, name, seconds, licence and URL.",
      inputSchema: {
        type: "object",
        required: ["words"],
        properties: {
          words: { type: "string", minLength: 1, maxLength: 200 },
          longest_s: { type: "number", minimum: 0.1, maximum: 600, description: "Longest duration in seconds" },
          free_only: { type: "boolean", description: "Only sounds that need no attribution (CC0)" },
        },
      },
      idempotent: true,
      async handler({ words, longest_s, free_only }, config) {
        const url = new URL(`${config.base ?? "https://freesound.org/apiv2"}/search/text/`);
        url.searchParams.set("query", words);
        url.searchParams.set("fields", "id,name,duration,license,url");
        url.searchParams.set("page_size", String(config.page_size ?? 15));
        const answer = await fetch(url, { headers: { Authorization: `Token ${config.token}`, Accept: "application/json" } });
        if (answer.status === 401) throw Object.assign(new Error("the API key was not accepted"), { code: "SDK_REJECTED" });
        if (!answer.ok) throw Object.assign(new Error(`the server answered ${answer.status}`), { code: "HOST_OFFLINE" });
        const { results = [] } = await answer.json();
        const sounds = results
          .map((it) => ({ id: it.id, name: it.name, seconds: it.duration, licence: it.license, url: it.url }))
          .filter((it) => longest_s === undefined || it.seconds <= longest_s)
          .filter((it) => !free_only || /publicdomain\/zero/.test(it.licence ?? ""))
          .sort((a, b) => a.seconds - b.seconds);
        return { count: sounds.length, sounds };
      },
    },
  ];
}
