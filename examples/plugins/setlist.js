// Stores a set list in a readable file: setlist.json in a folder that you grant.
//
//   [tools.filesystem]
//   roots = [{ name = "studio", path = "~/Music/Studio", write = true }]
//
//   conductor plugins enable setlist --files-read studio --files-write studio

const FILE = "setlist.json";

async function load() {
  try {
    const list = JSON.parse(await files.read(FILE));
    return { songs: list.songs ?? [], at: list.at ?? 0 };
  } catch (error) {
    if (error.code === "NOT_FOUND") return { songs: [], at: 0 };
    throw error;
  }
}

const save = (list) => files.write(FILE, JSON.stringify(list, null, 2) + "\n");

function shown(list) {
  const minutes = list.songs.reduce((sum, song) => sum + (song.minutes ?? 0), 0);
  return { now: list.songs[list.at] ?? null, next: list.songs[list.at + 1] ?? null, at: list.at, minutes, songs: list.songs };
}

function fail(code, message) {
  throw Object.assign(new Error(message), { code });
}

const nothing = { type: "object", properties: {} };

export default {
  name: "setlist",
  version: "1.0.0",
  description: "A set list with the current and the next song.",
  tools: [
    {
      name: "setlist.show",
      description: "Returns the songs in order, the current song, and the duration of the whole list.",
      inputSchema: nothing,
      idempotent: true,
      async handler() {
        return shown(await load());
      },
    },
    {
      name: "setlist.add",
      description: "Adds a song at the end, or at `place`, counted from 0.",
      inputSchema: {
        type: "object",
        required: ["title"],
        properties: {
          title: { type: "string", minLength: 1, maxLength: 200 },
          key: { type: "string", maxLength: 20 },
          tempo: { type: "number", minimum: 20, maximum: 400, description: "Beats per minute" },
          minutes: { type: "number", minimum: 0, maximum: 120 },
          place: { type: "integer", minimum: 0 },
        },
      },
      async handler({ place, ...song }) {
        const list = await load();
        if (list.songs.some((it) => it.title === song.title)) fail("BAD_INPUT", `"${song.title}" is already in the list`);
        const at = Math.min(place ?? list.songs.length, list.songs.length);
        list.songs.splice(at, 0, song);
        if (at <= list.at && list.songs.length > 1) list.at += 1;
        await save(list);
        return shown(list);
      },
    },
    {
      name: "setlist.remove",
      description: "Removes a song from the list by its title.",
      inputSchema: { type: "object", required: ["title"], properties: { title: { type: "string" } } },
      async handler({ title }) {
        const list = await load();
        const index = list.songs.findIndex((it) => it.title === title);
        if (index < 0) fail("NOT_FOUND", `"${title}" is not in the list`);
        list.songs.splice(index, 1);
        if (index < list.at) list.at -= 1;
        list.at = Math.max(0, Math.min(list.at, list.songs.length - 1));
        await save(list);
        return shown(list);
      },
    },
    {
      name: "setlist.next",
      description: "Makes the next song the current song. Intended for a pad.",
      inputSchema: nothing,
      async handler() {
        const list = await load();
        if (list.at + 1 >= list.songs.length) fail("NOT_FOUND", "the current song is the last song");
        list.at += 1;
        await save(list);
        return shown(list);
      },
    },
  ],
};
