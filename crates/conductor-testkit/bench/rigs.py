#!/usr/bin/env python3
"""Measures several rigs with one NATS server.

    rigs.py CONDUCTOR [quick]

First measures the time from a pad to the output of its mapping: without a cluster, with a cluster,
and with a server that hangs. Then connects 1 to 20 rigs to one server, and measures the lag of the
witness, the time of a decision, and the memory and CPU time. Needs nats-server.
"""

import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CONDUCTOR = str(pathlib.Path(sys.argv[1]).resolve())
QUICK = "quick" in sys.argv[2:]
PRESSES = 500 if QUICK else 3000
SIZES = [1, 5] if QUICK else [1, 5, 10, 20]
ROUNDS = 10 if QUICK else 40

STUDIO = """schema = 1
[limits]
asks_per_minute = 600
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[modes]]
name = "Play"
[[modes.mappings]]
trigger = { type = "Note", note = 36 }
action = { type = "SendMidi", port = "synth", message_type = "NoteOn", channel = 0, note = 60, velocity = 100 }
[[modes]]
name = "Mix"
"""


class Control:
    """A connection to control.sock: one JSON-RPC message per line."""

    def __init__(self, home):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(home / "control.sock"))
        self.lines = self.socket.makefile("r")
        self.last = 0

    def ask(self, method, params):
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.socket.sendall((json.dumps(message) + "\n").encode())
        while True:
            answer = json.loads(self.lines.readline())
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]

    def call(self, tool, arguments):
        return self.ask("call", {"tool": tool, "arguments": arguments})


class Rig:
    def __init__(self, name, folder):
        self.name = name
        self.home = folder / name
        self.home.mkdir()
        self.environment = {**os.environ, "CONDUCTOR_HOME": str(self.home)}
        self.environment.pop("DISPLAY", None)
        self.daemon = None

    def run(self, *words):
        done = subprocess.run([CONDUCTOR, "--json", *words], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads(done.stdout)

    def person(self, *words):
        """Runs a command on a new terminal, as a person."""
        line = " ".join([CONDUCTOR, *words])
        return subprocess.run(["script", "-qec", line, "/dev/null"], env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def up(self):
        words = [CONDUCTOR, "--json", "up", "--http", "127.0.0.1:0"]
        self.daemon = subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.daemon.stdout.readline()
        self.control = Control(self.home)

    def down(self):
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait()

    def cluster(self):
        status = self.control.call("conductor_get_status", {})
        return status.get("cluster") or status.get("structuredContent", {}).get("cluster")


class Venue:
    def __init__(self, count, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.rigs = [Rig(f"rig-{n}", folder) for n in range(count)]
        keys = [rig.run("rigs", "key") for rig in self.rigs]
        songs = folder / "songs"
        songs.mkdir()
        for n, rig in enumerate(self.rigs):
            text = STUDIO + f'[tools.filesystem]\nroots = [{{ name = "songs", path = "{songs}", write = true }}]\n'
            text += f'[cluster]\nnats = "nats://127.0.0.1:{self.port}"\nrig = "{rig.name}"\n'
            if n == 0:
                for other, key in zip(self.rigs, keys):
                    decides = [it.name for it in self.rigs if it is not other]
                    text += f'[[cluster.rigs]]\nname = "{other.name}"\nkey = "{key["key"]}"\ndecides_for = {json.dumps(decides)}\n'
            else:
                text += f'[[cluster.deciders]]\nname = "desk"\nkey = "{keys[0]["decider"]}"\ntiers = ["HardwareIO"]\n'
            (rig.home / "config.toml").write_text(text)
        config = self.rigs[0].run("rigs", "server-config", "--listen", f"127.0.0.1:{self.port}", "--store", str(folder / "store"))["config"]
        (folder / "nats.conf").write_text(config)
        self.server = subprocess.Popen(["nats-server", "-c", str(folder / "nats.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(lambda: can_connect(self.port))
        self.rigs[0].run("rigs", "init")
        for rig in self.rigs:
            rig.up()
        for rig in self.rigs:
            wait(lambda: rig.cluster()["connected"])
            wait(lambda: rig.cluster()["unwitnessed"] == 0)

    def down(self):
        self.server.send_signal(signal.SIGCONT)
        for rig in self.rigs:
            rig.down()
        self.server.terminate()
        self.server.wait()


def can_connect(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


def wait(look):
    end = time.monotonic() + 60
    while not look():
        if time.monotonic() > end:
            raise RuntimeError("a condition did not hold within a minute")
        time.sleep(0.002)


def percent(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def presses(rig):
    """The time from a press to the note of its mapping, in microseconds."""
    ear = Control(rig.home)
    ear.ask("monitor", {"port": "synth"})
    found = []
    for _ in range(PRESSES):
        started = time.perf_counter_ns()
        rig.control.ask("play", {"port": "pads hand", "messages": [[0x90, 36, 100], [0x80, 36, 0]]})
        while True:
            item = json.loads(ear.lines.readline())
            if "bytes" in json.dumps(item):
                break
        found.append((time.perf_counter_ns() - started) / 1000)
    return found


def hands():
    print("From a pad through the human door to the output port, in microseconds:")
    print(f"{'cluster':<10} {'p50':>8} {'p99':>8}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        rig = Rig("alone", folder)
        (rig.home / "config.toml").write_text(STUDIO)
        rig.up()
        row("off", presses(rig))
        rig.down()
        venue = Venue(1, folder)
        row("on", presses(venue.rigs[0]))
        venue.server.send_signal(signal.SIGSTOP)
        row("hanging", presses(venue.rigs[0]))
        venue.down()


def row(name, values):
    print(f"{name:<10} {statistics.median(values):>8.0f} {percent(values, 0.99):>8.0f}")


def memory_mb(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def cpu_ms(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def growth():
    print()
    print("Rigs on one server; each makes calls, and one person decides for another rig:")
    print(f"{'rigs':>4} {'witness lag ms p50':>19} {'p99':>6} {'decision ms p50':>16} {'server MB':>10} {'CPU ms per 1000 records':>24} {'rig MB':>7}")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            venue = Venue(size, pathlib.Path(folder))
            pid, lags, decisions = venue.server.pid, [], []
            before, records = cpu_ms(pid), 0
            for turn in range(ROUNDS):
                for rig in venue.rigs:
                    rig.control.call("conductor_switch_mode", {"mode": "Mix" if turn % 2 == 0 else "Play"})
                    records += 2
                started = time.perf_counter()
                for rig in venue.rigs:
                    wait(lambda: rig.cluster()["unwitnessed"] == 0)
                lags.append((time.perf_counter() - started) * 1000)
            spent = (cpu_ms(pid) - before) * 1000 / records
            if size > 1:
                decisions = [decide(venue, n) for n in range(5 if QUICK else 15)]
            shown = f"{statistics.median(decisions):.0f}" if decisions else "-"
            own = statistics.median(memory_mb(it.daemon.pid) for it in venue.rigs)
            print(f"{size:>4} {statistics.median(lags):>19.1f} {percent(lags, 0.99):>6.0f} {shown:>16} {memory_mb(pid):>10.1f} {spent:>24.1f} {own:>7.1f}")
            venue.down()


RELAY = """import socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(sys.argv[2].encode() + b"\\n")
print(peer.makefile().readline())"""


def decide(venue, n):
    """The time from a person's command on one rig to the end of the request on the other rig."""
    rig = venue.rigs[1]
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "filesystem.write", "params": {"path": f"{n}.txt", "content": "x"}})
    # The client runs in a separate process: a person cannot decide in a process that descends from
    # an AI client.
    asked = subprocess.run([sys.executable, "-c", RELAY, str(rig.home / "mcp.sock"), call], capture_output=True, text=True)
    short = json.loads(asked.stdout)["error"]["data"]["short"]
    wait(lambda: any(it["short"] == short for it in venue.rigs[0].control.ask("rigs.questions", {})["questions"]))
    started = time.perf_counter()
    done = venue.rigs[0].person("rigs", "approvals", "allow", rig.name, short)
    if "has applied" not in done.stdout:
        raise RuntimeError(done.stdout + done.stderr)
    return (time.perf_counter() - started) * 1000


hands()
growth()
