/// <reference path="./conductor-plugin.d.ts" />
// Your plugin. Each tool below can be called by an AI client, by `conductor call NAME.greet '{"who":"world"}'`,
// and by a pad: action = { type = "Plugin", plugin = "NAME", tool = "greet", params = { who = "world" } }

/** @type {Conductor.Plugin} */
export default {
  name: "NAME",
  version: "0.1.0",
  description: "Says hello, and counts how often.",

  configSchema: {
    type: "object",
    properties: { greeting: { type: "string", description: "The first word" } },
    additionalProperties: false,
  },

  async onLoad(config) {
    this.greeted = 0;
    console.log("ready to say", config.greeting ?? "Hello");
  },

  tools: [
    {
      name: "NAME.greet",
      description: "Greets a person by name.",
      inputSchema: {
        type: "object",
        properties: { who: { type: "string", maxLength: 100, description: "Whom to greet" } },
        required: ["who"],
      },
      // Lets Conductor retry a failed call.
      idempotent: true,
      async handler({ who }, config) {
        return `${config.greeting ?? "Hello"}, ${who}!`;
      },
    },
  ],
};
