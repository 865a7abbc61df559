/// <reference path="./conductor-plugin.d.ts" />
// Your plugin. An AI client can call each tool below, and so can you:
//   conductor call NAME.greet '{"who":"world"}'
// A pad can call a tool with this action:
//   action = { type = "Plugin", plugin = "NAME", tool = "greet", params = { who = "world" } }

/** @type {Conductor.Plugin} */
export default {
  name: "NAME",
  version: "0.1.0",
  description: "Greets people.",

  configSchema: {
    type: "object",
    properties: { greeting: { type: "string", description: "The first word of the greeting" } },
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
        properties: { who: { type: "string", maxLength: 100, description: "Name of the person" } },
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
