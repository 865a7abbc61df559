"""Uses every system of Conductor with conductor.exe under Wine, as a person and as an AI client.

Usage: story.py FOLDER [STEP...], with the folder of the program and with the environment of
`.ci/wine`. The program runs from a copy in a folder with spaces and with letters outside ASCII.
"""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from studio import PATIENCE, Mcp, Person, Studio, windows_path

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.normpath(os.path.join(HERE, "../../.."))
KILLS = 20

# Names that Windows does not resolve to exactly one file below the folder: devices, streams, short
# names, other drives and folders.
ATTACKS = [
    "CON",
    "nul.txt",
    "sub\\COM1.txt",
    "aux .txt",
    "note.txt::$DATA",
    "note.txt:hidden",
    "note.txt.",
    "note.txt ",
    "sub./note.txt",
    "SECRET~1.TXT",
    "\\\\?\\C:\\windows\\win.ini",
    "\\\\.\\pipe\\x",
    "\\\\127.0.0.1\\c$\\windows\\win.ini",
    "//127.0.0.1/share/x",
    "C:\\windows\\win.ini",
    "C:note.txt",
    "\\windows\\win.ini",
    "..\\outside.txt",
    "sub\\..\\..\\outside.txt",
    "../outside.txt",
]


REFUSALS = ["DENIED", "BAD_INPUT", "NOT_FOUND", "SDK_REJECTED"]


class World:
    """The state that all steps share: a studio with the demo and a studio with tools."""

    def __init__(self, program, folder):
        self.folder = folder
        self.program = program
        self.demo = Studio(program, os.path.join(folder, "home ä"))
        self.work = Studio(program, os.path.join(folder, "Räume"))
        self.files = os.path.join(folder, "Dateien für alle")
        self.live = None

    def configuration(self):
        path = lambda it: windows_path(it).replace("'", "")
        system = "C:\\windows\\system32\\"
        return f"""schema = 1
[[devices]]
alias = "pads"
loopback = true
[[modes]]
name = "Default"
[[modes]]
name = "Mix"
[secrets]
key = "keychain"
[tools.filesystem]
roots = [{{ name = "studio", path = '{path(self.files)}', write = true }}]
[[tools.shell.commands]]
name = "check"
program = '{path(self.program)}'
args = ["set", "check", "{{file}}"]
slots.file = {{ type = "path", root = "studio" }}
effect = "read"
[[tools.shell.commands]]
name = "wait"
program = '{system}cmd.exe'
args = ["/c", '{system}ping.exe', "-n", "60", "127.0.0.1"]
effect = "read"
timeout_ms = 1500
[[tools.shell.commands]]
name = "make"
program = '{system}cmd.exe'
args = ["/c", "echo", "made>made.txt"]
cwd = "studio"
[tools.database.sets]
url = "sqlite:{path(os.path.join(self.files, "sets.db")).replace(chr(92), "/")}"
[live.osc]
port = {self.osc["port"]}
reply_port = {free_port()}
[patch.max]
enabled = true
port = {free_port()}
"""


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def lines(process):
    return json.loads(process.stdout.readline())


def simulation(*arguments):
    """Starts a simulated program of the test kit, on Linux. It reads orders and writes answers."""
    pipe = subprocess.PIPE
    return subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True)


def order(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return lines(process)


def version(world):
    code, out, _ = world.demo.run("--version")
    assert code == 0 and out.startswith("conductor "), out


def tour(world):
    """Runs every command that `up --demo` suggests."""
    studio = world.demo
    greeting = studio.up("--demo", "--http", "127.0.0.1:0")
    world.url = re.search(r"http://127\.0\.0\.1:\d+", greeting).group(0)
    # This console is open before any client starts.
    world.early = Person(studio)
    commands = re.findall(r"^  \d+\. .*?conductor(?:\.exe)?\"? (.*)$", greeting, re.MULTILINE)
    assert len(commands) == 5, greeting
    for command in commands:
        words = [it.strip("'\"") for it in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", command)]
        code, out, err = studio.run(*words)
        assert code == 0 and (out.strip() or words[0] == "send"), f"{command}: {code}\n{out}\n{err}"
    assert studio.ask("status")["current_mode"] == "Mix"


def second_daemon(world):
    pid = world.demo.pid()
    code, _, err = world.demo.run("up")
    assert code != 0 and f"pid {pid}" in err, err


def call_through_the_pipe(world):
    devices = world.demo.ask("call", "conductor_list_devices", "{}")
    assert "pads" in json.dumps(devices), devices


def mcp_over_stdio(world):
    client = Mcp(world.demo)
    assert client.ask("tools/list", {})["tools"]
    assert client.ok("conductor_get_status", {})
    large = client.ok("conductor_explain", {"event": "on:36", "device": "pads"})
    assert "kick" in json.dumps(large), large
    assert client.end() == 0, client.process.stderr.read()


def http(world, path, token=None, body=None):
    accept = "application/json, text/event-stream" if body else "text/html"
    headers = {"content-type": "application/json", "accept": accept}
    if token:
        headers["authorization"] = f"Bearer {token}"
    data = json.dumps(body).encode() if body else None
    try:
        answer = urllib.request.urlopen(urllib.request.Request(world.url + path, data, headers), timeout=PATIENCE)
        return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def http_door(world):
    with open(os.path.join(world.demo.home, "state/http.token"), encoding="utf-8") as file:
        token = file.read().strip()
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "http story", "version": "1"},
        },
    }
    assert http(world, "/mcp", None, hello)[0] == 401
    assert http(world, "/mcp", token[:-1] + "x", hello)[0] == 401
    status, text = http(world, "/mcp", token, hello)
    assert status == 200 and "serverInfo" in text, f"{status} {text}"


def console_link(world):
    """A person at a console gets a link, and the link opens the page once."""
    screen = world.early.does("console")
    link = re.search(r"(http://127\.0\.0\.1:\d+)/#login=[\w-]+", screen)
    assert link and link.group(1) == world.url, screen
    # A debug build reads the page from the source tree, whose path is a Linux path.
    if world.is_release:
        status, page = http(world, "/")
        assert status == 200 and "<html" in page, f"{status} {page[:200]}"


def decisions_need_a_console(world):
    code, out, err = world.demo.run("performance", "off")
    assert code != 0 and "terminal" in err, f"{out}{err}"
    assert "off" in world.early.does("performance off")
    client = Mcp(world.demo)
    late = Person(world.demo)
    code, screen = late.run("performance off")
    assert code != 0 and "detached" in screen, screen
    late.leave()
    assert client.end() == 0


def plans(world):
    """A model plans a mapping, a person applies it, the pad works, and the person rolls it back."""
    studio = world.demo
    person = world.early
    client = Mcp(studio)
    change = {
        "mode": "Mix",
        "trigger": {"type": "Note", "note": 99},
        "action": {"type": "ModeChange", "mode": "Default"},
    }
    plan = client.ok("conductor_create_mapping", change)["plan_id"]
    client.refused("plan.apply", {"plan_id": plan}, "NOT_FOUND")
    person.does(f"plans apply {plan}")
    assert studio.ask("plans", "show", plan)["status"] == "applied"
    studio.run("mode", "set", "Mix")
    explained = studio.ask("explain", "on:99", "--mode", "Mix")
    assert explained["verdict"] == "fires", explained
    rejected = client.ok("conductor_create_mapping", {**change, "trigger": {"type": "Note", "note": 98}})["plan_id"]
    person.does(f"plans reject {rejected}")
    person.does(f"plans undo {plan}", [(r"\[y/N\]", "y")])
    assert client.end() == 0


def end_of_demo(world):
    world.early.leave()
    world.demo.terminate()
    code, out, err = world.demo.run("audit", "verify")
    assert code in (0, 14), f"{code}\n{out}\n{err}"


def killed_again_and_again(world):
    """The log stays intact if TerminateProcess ends the daemon while calls are in flight."""
    studio = world.demo
    for kill in range(KILLS):
        studio.up("--demo", "--http", "127.0.0.1:0")
        pid = studio.pid()
        client = Mcp(studio)
        answered = 0
        for note in range(1 + kill % 7):
            client.ok("conductor_switch_mode", {"mode": "Mix" if note % 2 else "Default"})
            answered += 1
        # The daemon ends while further calls are in flight.
        for note in range(5):
            client.asked += 1
            params = {"name": "conductor_switch_mode", "arguments": {"mode": "Mix"}}
            client.send({"jsonrpc": "2.0", "id": client.asked, "method": "tools/call", "params": params})
        studio.terminate(pid)
        client.process.kill()
        client.process.wait(timeout=PATIENCE)
        code, out, err = studio.run("audit", "verify")
        # A kill may leave a torn last line, which the next start repairs.
        assert code in (0, 14), f"kill {kill}: {code}\n{out}\n{err}"
    studio.up("--demo", "--http", "127.0.0.1:0")
    code, out, err = studio.run("audit", "verify")
    assert code == 0 and "INTACT" in out, f"{code}\n{out}\n{err}"
    listed = studio.run("audit", "list", "--json")[1]
    assert listed.count("conductor_switch_mode") >= answered, listed
    studio.terminate()


def a_client_starts_the_daemon(world):
    client = Mcp(world.demo)
    assert client.end() == 0, client.process.stderr.read()
    world.demo.terminate()


def work_begins(world):
    """Starts a simulation of Live, a studio with tools, a person at a console, and a client."""
    os.makedirs(world.files)
    os.makedirs(world.work.home)
    with open(os.path.join(world.files, "note.txt"), "w", encoding="utf-8") as file:
        file.write("la la\n")
    # The database of the person exists before the configuration allows it.
    sqlite3.connect(os.path.join(world.files, "sets.db")).execute("CREATE TABLE old (x)").connection.close()
    with open(os.path.join(world.folder, "outside.txt"), "w", encoding="utf-8") as file:
        file.write("private\n")
    os.makedirs(os.path.join(world.files, "sub"))
    serve = os.path.join(TREE, "crates/conductor-testkit/fakelive/serve.py")
    world.live = simulation("python3", "-B", serve, "osc")
    world.osc = lines(world.live)
    with open(os.path.join(world.work.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(world.configuration())
    world.work.up("--http", "127.0.0.1:0")
    checked = world.work.run("config", "check")
    assert checked[0] == 0, checked
    world.person = Person(world.work)
    world.client = Mcp(world.work)


def allowed(world, tool, arguments):
    """Makes a call, lets a person allow it at the console, and repeats it."""
    asked = world.client.refused(tool, arguments, "APPROVAL_REQUIRED")
    approval = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", json.dumps(asked)).group(0)
    world.person.does(f"approvals allow {approval}")
    return world.client.ok(tool, arguments)


def denied(world, tool, arguments):
    asked = world.client.refused(tool, arguments, "APPROVAL_REQUIRED")
    approval = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", json.dumps(asked)).group(0)
    world.person.does(f"approvals deny {approval}")
    world.client.refused(tool, arguments, "DENIED", "APPROVAL_REQUIRED")


def files_below_a_root(world):
    client = world.client
    assert client.ok("filesystem.read", {"path": "note.txt"})["content"] == "la la\n"
    assert "note.txt" in json.dumps(client.ok("filesystem.list", {}))
    assert client.ok("filesystem.search", {"pattern": "la la"})["matches"]
    allowed(world, "filesystem.write", {"path": "sub/Töne 日本.txt", "content": "neu", "expected_hash": "absent"})
    with open(os.path.join(world.files, "sub/Töne 日本.txt"), encoding="utf-8") as file:
        assert file.read() == "neu"
    denied(world, "filesystem.write", {"path": "never.txt", "content": "x"})
    assert not os.path.exists(os.path.join(world.files, "never.txt"))


def file_attacks(world):
    for path in ATTACKS:
        for tool, more in [("filesystem.read", {}), ("filesystem.write", {"content": "x"}), ("filesystem.delete", {})]:
            world.client.refused(tool, {"path": path, **more}, *REFUSALS)
    for path in ATTACKS:
        world.client.refused("open_patch", {"path": path + ".maxpat"}, *REFUSALS)
        world.client.refused("live_open_set", {"path": path + ".als"}, *REFUSALS)
    with open(os.path.join(world.folder, "outside.txt"), encoding="utf-8") as file:
        assert file.read() == "private\n"
    # On Windows, a name in another case is the same file, and the same rules apply to it.
    assert world.client.ok("filesystem.read", {"path": "NOTE.TXT"})["content"] == "la la\n"


def commands_of_templates(world):
    shutil.copy(os.path.join(TREE, "examples/sets/golden.als"), os.path.join(world.files, "a.als"))
    done = world.client.ok("shell.exec", {"command": "check", "args": {"file": "a.als"}})
    assert done["exit_code"] == 0, done
    for file in ["..\\outside.txt", "C:\\windows\\win.ini", "-n", "CON"]:
        refused = {"command": "check", "args": {"file": file}}
        world.client.refused("shell.exec", refused, *REFUSALS)
    world.client.refused("shell.exec", {"argv": ["cmd.exe", "/c", "dir"]}, "DENIED")
    allowed(world, "shell.exec", {"command": "make"})
    assert os.path.exists(os.path.join(world.files, "made.txt"))


def a_command_at_its_limit_ends_with_its_children(world):
    world.client.refused("shell.exec", {"command": "wait"}, "TIMEOUT")
    listed = subprocess.run(["wine", "tasklist"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "ping.exe" not in listed.stdout.lower(), listed.stdout


def sqlite(world):
    sql = {"database": "sets", "sql": "CREATE TABLE takes (name TEXT, bpm INTEGER)"}
    allowed(world, "database.execute", sql)
    row = {"database": "sets", "sql": "INSERT INTO takes VALUES (?1, ?2)", "params": ["Über", 121]}
    allowed(world, "database.execute", row)
    found = world.client.ok("database.query", {"database": "sets", "sql": "SELECT name, bpm FROM takes"})
    assert "Über" in json.dumps(found, ensure_ascii=False) and "121" in json.dumps(found), found
    world.client.refused("database.query", {"database": "sets", "sql": "DELETE FROM takes"}, "DENIED")


def a_patch_document(world):
    client = world.client
    patch = client.ok("create_patch", {"path": "Mein Patch ä.maxpat", "alias": "p"})
    added = {"patch_id": "p", "obj_type": "cycle~", "position": [10, 10], "arguments": [440], "varname": "osc"}
    client.ok("add_max_object", added)
    client.ok("add_max_object", {**added, "obj_type": "dac~", "position": [10, 80], "arguments": [], "varname": "out"})
    cord = {"op": "connect", "src_varname": "osc", "outlet": 0, "dst_varname": "out", "inlet": 0}
    client.ok("edit_patch", {"patch_id": "p", "edits": [cord]})
    client.ok("save_patch", {"patch_id": "p"})
    path = os.path.join(world.work.home, "patches/Mein Patch ä.maxpat")
    with open(path, encoding="utf-8") as file:
        saved = json.load(file)
    assert len(saved["patcher"]["boxes"]) == 2 and len(saved["patcher"]["lines"]) == 1, f"{patch} {saved}"
    assert world.work.run("patch", "check", windows_path(path))[0] == 0
    # A second save replaces the file.
    client.ok("undo_patch", {"patch_id": "p"})
    client.ok("save_patch", {"patch_id": "p"})
    with open(path, encoding="utf-8") as file:
        assert not json.load(file)["patcher"]["lines"]


def a_set_document(world):
    client = world.client
    sets = os.path.join(world.work.home, "sets")
    os.makedirs(sets, exist_ok=True)
    shutil.copy(os.path.join(world.files, "a.als"), os.path.join(sets, "Lied ü.als"))
    client.ok("live_open_set", {"path": "Lied ü.als"})
    client.ok("live_set_tempo", {"bpm": 133})
    client.ok("live_save_set", {})
    assert os.listdir(os.path.join(sets, "Backup"))
    info = world.work.run("set", "info", windows_path(os.path.join(sets, "Lied ü.als")))
    assert info[0] == 0 and "133" in info[1], info


def secrets_in_credential_manager(world):
    screen = world.person.does("secrets set api", [(r"(?i)value.*:", "hunter2-of-the-story")])
    assert "hunter2" not in screen, screen
    listed = world.work.run("secrets", "list")
    assert "api" in listed[1] and "hunter2" not in listed[1], listed
    status = world.work.run("secrets", "status")[1]
    assert "keychain (key held by the OS keychain)" in status, status
    for folder, _, names in os.walk(world.work.home):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"hunter2" not in file.read(), name


def a_plugin(world):
    created = world.work.run("plugins", "new", "hello")
    assert created[0] == 0, created
    checked = world.work.run("plugins", "check", "hello")
    assert checked[0] == 0, checked
    world.person.does("plugins enable hello", [(r"\[y/N\]", "y")])
    answer = world.client.ok("hello.greet", {"who": "Ada"})
    assert "Ada" in json.dumps(answer), answer


def live_over_osc(world):
    client = world.client
    song = client.ok("live_open_set", {"host": "abletonosc"})
    assert song["host"] == "abletonosc", song
    client.ok("live_set_tempo", {"bpm": 131})
    tempo = order(world.live, json.dumps({"look": "song.tempo"}))["ok"]
    assert tempo == 131, tempo


def live_with_our_script(world):
    """Installs the script with `bridge install live`, and runs it in the simulated Live."""
    scripts = os.path.join(world.folder, "User Library/Remote Scripts")
    os.makedirs(scripts)
    installed = world.work.run("bridge", "install", "live", "--to", windows_path(scripts))
    assert installed[0] == 0, installed
    with open(os.path.join(scripts, "Conductor/home.txt"), encoding="utf-8") as file:
        assert file.read().strip() == windows_path(world.work.home)
    # The simulated Live runs on Linux, where the home has another name.
    with open(os.path.join(scripts, "Conductor/home.txt"), "w", encoding="utf-8") as file:
        file.write(world.work.home)
    serve = os.path.join(TREE, "crates/conductor-testkit/fakelive/serve.py")
    script = simulation("python3", "-B", serve, "script", scripts)
    try:
        lines(script)
        song = world.client.ok("live_open_set", {"host": "script"})
        assert song["host"] == "script", song
        world.client.ok("live_set_tempo", {"bpm": 129})
        assert order(script, json.dumps({"look": "song.tempo"}))["ok"] == 129
        found = world.work.run("doctor")[1]
        assert re.search(r"^ok +live script", found, re.MULTILINE), found
    finally:
        script.kill()
        script.wait()


def max_with_our_bridge(world):
    """A program without the secret is refused. The bridge in the simulated Max connects and edits."""
    installed = world.work.run("bridge", "install", "max")
    assert installed[0] == 0, installed
    with open(os.path.join(world.work.home, "state/max-bridge.json"), encoding="utf-8") as file:
        address = json.load(file)
    with socket.create_connection(("127.0.0.1", address["port"]), PATIENCE) as stranger:
        answers = stranger.makefile("rb")
        assert answers.readline().startswith(b"conductor-daemon ")
        proof = f"Authorization: Conductor {'0' * 64} {'0' * 64}"
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YWFhYWFhYWFhYWFhYWFhYQ=="
        stranger.sendall(f"GET /max HTTP/1.1\r\nHost: 127.0.0.1\r\n{upgrade}\r\n{proof}\r\n\r\n".encode())
        assert b" 401 " in answers.readline()
    client = world.client
    client.refused("create_patch", {"host": "max", "path": "m.maxpat", "alias": "m"}, "HOST_OFFLINE")
    fake = simulation("node", os.path.join(TREE, "bridges/max/test/run.js"), world.work.home)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            failed, answer = client.call("create_patch", {"host": "max", "path": "m.maxpat", "alias": "m"})
            if not failed:
                break
            assert answer["code"] == "HOST_OFFLINE" and time.monotonic() < end, answer
            time.sleep(0.2)
        edits = [
            {"op": "add", "obj_type": "cycle~", "position": [10, 10], "arguments": [440], "varname": "osc"},
            {"op": "add", "obj_type": "*~", "position": [10, 60], "arguments": [0.1], "varname": "gain"},
            {"op": "connect", "src_varname": "osc", "outlet": 0, "dst_varname": "gain", "inlet": 0},
        ]
        client.ok("edit_patch", {"patch_id": "m", "edits": edits})
        shown = order(fake, "world.picture(world.patchers[0])")
        assert [it["text"] for it in shown["boxes"]] == ["cycle~ 440", "*~ 0.1"], shown
        assert shown["cords"] == [[0, 0, 1, 0]], shown
        client.ok("undo_patch", {"patch_id": "m"})
        assert order(fake, "world.picture(world.patchers[0])")["boxes"] == []
    finally:
        fake.kill()
        fake.wait()


def what_is_reported(world):
    found = world.work.run("doctor")[1]
    assert "cannot start programs and run with low integrity" in found, found
    assert re.search(r"^ok +home", found, re.MULTILINE), found
    assert "--features studio" not in found, found


def work_ends(world):
    assert world.client.end() == 0
    world.person.leave()
    world.work.terminate()
    code, out, err = world.work.run("audit", "verify")
    assert code in (0, 14), f"{code}\n{out}\n{err}"
    world.live.kill()


def client_configurations(world):
    """Writes the configuration files of fourteen clients in a new Windows profile."""
    prefix = os.path.join(world.folder, "prefix")
    environment = {**os.environ, "WINEPREFIX": prefix}
    subprocess.run(["wineboot", "--init"], env=environment, capture_output=True, timeout=PATIENCE, check=True)
    studio = Studio(world.program, os.path.join(world.folder, "home ä"), prefix)
    project = os.path.join(world.folder, "Projekt ß")
    os.makedirs(project)
    linux = lambda it: it[2:].replace("\\", "/") if it.startswith("Z:") else os.path.join(
        prefix, "drive_c", it[3:].replace("\\", "/")
    )
    try:
        clients = studio.ask("mcp", "setup", "--status", folder=project)["clients"]
        assert len(clients) == 14, clients
        roaming = [it["client"] for it in clients if "\\AppData\\Roaming\\" in it["file"]]
        assert roaming == ["claude-desktop", "cline", "zed", "goose"], clients
        for client in clients:
            assert "/" not in client["file"], client
            os.makedirs(os.path.dirname(linux(client["file"])), exist_ok=True)
            code, out, err = studio.run("mcp", "setup", "--client", client["client"], folder=project)
            assert code == 0, f"{client}: {out}{err}"
            with open(linux(client["file"]), encoding="utf-8") as file:
                text = file.read()
            assert "conductor.exe" in text and "mcp" in text, f"{client}: {text}"
            if client["file"].endswith((".json", ".jsonc")):
                assert windows_path(world.program) in json.dumps(json.loads(text), ensure_ascii=False).replace(
                    "\\\\", "\\"
                ), text
        for client in studio.ask("mcp", "setup", "--status", folder=project)["clients"]:
            assert client["state"] == "set_up", client
    finally:
        subprocess.run(["wineserver", "-k"], env=environment, check=False)


STEPS = [
    version,
    tour,
    second_daemon,
    call_through_the_pipe,
    mcp_over_stdio,
    http_door,
    console_link,
    decisions_need_a_console,
    plans,
    end_of_demo,
    killed_again_and_again,
    a_client_starts_the_daemon,
    work_begins,
    files_below_a_root,
    file_attacks,
    commands_of_templates,
    a_command_at_its_limit_ends_with_its_children,
    sqlite,
    a_patch_document,
    a_set_document,
    secrets_in_credential_manager,
    a_plugin,
    live_over_osc,
    live_with_our_script,
    max_with_our_bridge,
    what_is_reported,
    work_ends,
    client_configurations,
]


def main():
    built, chosen = sys.argv[1], sys.argv[2:]
    folder = tempfile.mkdtemp(prefix="Stüdio mit Räumen 日本 ")
    program = os.path.join(folder, "conductor.exe")
    shutil.copy(os.path.join(built, "conductor.exe"), program)
    # Wine 8 lacks this library. The process of a plugin has no search path, so the library must be
    # next to the program.
    shutil.copy(os.path.join(os.environ["CONDUCTOR_WINE_TOOLS"], "bcryptprimitives.dll"), folder)
    world = World(program, folder)
    world.is_release = os.environ.get("CONDUCTOR_STORY_RELEASE") == "1"
    passed = failed = 0
    try:
        for step in STEPS:
            if chosen and step.__name__ not in chosen:
                continue
            try:
                step(world)
                passed += 1
                print(f"test story::{step.__name__} ... ok", flush=True)
            except Exception as fault:  # A failed step does not end the run.
                failed += 1
                print(f"test story::{step.__name__} ... FAILED\n{fault!r}", flush=True)
    finally:
        subprocess.run(["wineserver", "-k"], check=False)
        if world.live:
            world.live.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored")
    sys.exit(1 if failed else 0)


main()
