#!/usr/bin/env python3
"""Runs the built daemon under steady load, and checks that it does not grow.

    soak.py BINARY HOURS FOLDER

The load is 2,000 events and 200 calls a second, with reloads, mode changes and a device that is
disabled and enabled. Writes soak.json and soak.svg into FOLDER. Fails if memory, descriptors or threads
grow, if the load is not reached, if a call fails, if a note is stuck, or if the audit log is not
intact.
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
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import plot

EVENTS, CALLS = 2000, 200
BATCH = 20
CONFIG = """schema = 1
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "extra"
direction = "Input"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[limits]
read.per_minute = 60000
read.burst = 10000
effect.per_minute = 60000
effect.burst = 10000
[[global_mappings]]
id = "pad"
trigger = {{ type = "Note", note = 36, device = "pads" }}
action = {{ type = "SendMidi", port = "synth", channel = 0, message_type = "NoteOn", note = {note} }}
[[global_continuous]]
source = {{ type = "CC", cc = 7, device = "pads" }}
glue = {{ throttle_ms = 0 }}
targets = [{{ type = "CC", port = "synth", channel = 0, controller = 20 }}]
[[modes]]
name = "Play"
[[modes]]
name = "Mix"
"""


class Client:
    def __init__(self, home):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(home / "control.sock"))
        self.file = self.socket.makefile("rwb")
        self.asked = 0

    def ask(self, method, params):
        self.asked += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        self.file.write(line.encode() + b"\n")
        self.file.flush()
        answer = json.loads(self.file.readline())
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def call(self, tool, arguments):
        return self.ask("call", {"tool": tool, "arguments": arguments})


def percentile(values, share):
    values = sorted(values)
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0.0


class Soak:
    def __init__(self, binary, home):
        self.binary, self.home = binary, home
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.call_us, self.event_us, self.failures = [], [], []
        self.counts = {"events": 0, "calls": 0, "reloads": 0, "mode changes": 0, "device switches": 0}
        self.sounding = 0
        self.marks = {}

    def paced(self, per_second, step):
        """Repeats a step at this rate until the end. Late steps follow without a pause, unless they are more than a second late."""
        client = Client(self.home)
        due = time.monotonic()
        number = 0
        while not self.stop.is_set():
            try:
                step(client, number)
            except (OSError, RuntimeError, ValueError) as error:
                self.failures.append(str(error))
                if len(self.failures) > 20:
                    self.stop.set()
                    return
                client = Client(self.home)
            number += 1
            due += 1 / per_second
            wait = due - time.monotonic()
            if wait > 0:
                self.stop.wait(wait)
            elif wait < -1:
                due = time.monotonic()

    def play(self, client, number):
        value = number % 128
        messages = [[0xB0, 7, value], [0x90, 36, 100], [0x80, 36, 0]]
        messages += [[0xB0, 30 + it, value] for it in range(BATCH - len(messages))]
        with self.lock:
            self.marks[value] = time.monotonic()
        client.ask("play", {"port": "pads hand", "messages": messages})
        self.counts["events"] += BATCH

    def call(self, client, number):
        begin = time.monotonic()
        client.call("conductor_list_devices", {})
        with self.lock:
            self.call_us.append((time.monotonic() - begin) * 1e6)
        self.counts["calls"] += 1

    def reload(self, _client, number):
        draft = self.home / "config.toml.draft"
        draft.write_text(CONFIG.format(note=60 + number % 12))
        draft.rename(self.home / "config.toml")
        self.counts["reloads"] += 1

    def change_mode(self, client, number):
        client.call("conductor_switch_mode", {"mode": ["Play", "Mix"][number % 2]})
        self.counts["mode changes"] += 1

    def switch_device(self, client, number):
        client.call("conductor_set_device_enabled", {"device_id": "extra", "enabled": number % 2 == 1})
        self.counts["device switches"] += 1

    def listen(self):
        client = Client(self.home)
        client.socket.settimeout(None)
        client.ask("monitor", {"port": "synth"})
        while line := client.file.readline():
            message = json.loads(line).get("params", {}).get("bytes", [0, 0, 0])
            if message[0] == 0xB0 and message[1] == 20:
                with self.lock:
                    begin = self.marks.pop(message[2], None)
                    if begin:
                        self.event_us.append((time.monotonic() - begin) * 1e6)
            elif message[0] == 0x90 and message[2]:
                self.sounding += 1
            elif message[0] in (0x80, 0x90):
                self.sounding -= 1

    def sample(self, pid, minute):
        with self.lock:
            calls, events = self.call_us, self.event_us
            self.call_us, self.event_us = [], []
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        resident = next(int(it.split()[1]) for it in status.splitlines() if it.startswith("VmRSS"))
        return {
            "minute": minute,
            "resident_mb": resident / 1024,
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": len(os.listdir(f"/proc/{pid}/task")),
            "calls": len(calls),
            "call_p50_us": percentile(calls, 0.5),
            "call_p99_us": percentile(calls, 0.99),
            "event_p50_us": percentile(events, 0.5),
            "event_p99_us": percentile(events, 0.99),
        }


def faults(samples):
    """Ignores the first tenth as warm-up, then compares the last third with the first third."""
    steady = samples[max(1, len(samples) // 10):]
    third = max(1, len(steady) // 3)
    found = []
    for key, factor, slack in (("resident_mb", 1.05, 2), ("descriptors", 1, 6), ("threads", 1, 6)):
        first = statistics.median(it[key] for it in steady[:third])
        last = statistics.median(it[key] for it in steady[-third:])
        if last > first * factor + slack:
            found.append(f"{key} grew from {first:.1f} to {last:.1f}")
    return found


def main():
    binary, hours, folder = pathlib.Path(sys.argv[1]).resolve(), float(sys.argv[2]), pathlib.Path(sys.argv[3])
    seconds = hours * 3600
    interval = min(60.0, max(2.0, seconds / 20))
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        (home / "config.toml").write_text(CONFIG.format(note=60))
        environment = {**os.environ, "CONDUCTOR_HOME": str(home)}
        environment.pop("DISPLAY", None)
        log = open(home.with_suffix(".log"), "wb")
        command = [binary, "--json", "up", "--http", "127.0.0.1:0"]
        daemon = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        try:
            ready = json.loads(daemon.stdout.readline())
            soak = Soak(binary, home)
            jobs = [(EVENTS / BATCH, soak.play), (CALLS, soak.call), (1 / 10, soak.reload), (1 / 3, soak.change_mode), (1 / 7, soak.switch_device)]
            threads = [threading.Thread(target=soak.paced, args=it, daemon=True) for it in jobs]
            threading.Thread(target=soak.listen, daemon=True).start()
            for it in threads:
                it.start()
            samples = []
            begin = time.monotonic()
            while (passed := time.monotonic() - begin) < seconds and not soak.stop.is_set():
                soak.stop.wait(interval)
                samples.append(soak.sample(ready["pid"], (time.monotonic() - begin) / 60))
                print(json.dumps(samples[-1]), flush=True)
            soak.stop.set()
            for it in threads:
                it.join()
            time.sleep(1)
            found = faults(samples) + soak.failures
            for name, per_second in (("events", EVENTS), ("calls", CALLS)):
                reached = soak.counts[name] / (time.monotonic() - begin) / per_second
                if reached < 0.95:
                    found.append(f"the load was not reached: {reached:.0%} of the {name}")
            if soak.sounding:
                found.append(f"{soak.sounding} notes are stuck")
            verdict = subprocess.run([binary, "--json", "audit", "verify"], env=environment, capture_output=True, text=True)
            if verdict.returncode != 0:
                found.append(verdict.stdout + verdict.stderr)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
    folder.mkdir(parents=True, exist_ok=True)
    result = {"hours": hours, "counts": soak.counts, "faults": found, "samples": samples}
    (folder / "soak.json").write_text(json.dumps(result, indent=1) + "\n")
    line = lambda name, key: (name, [(it["minute"], it[key]) for it in samples])
    picture = plot.chart(
        f"Steady load for {hours:g} h: {EVENTS} events and {CALLS} calls a second",
        "minutes", "MB, count, or ms",
        [line("memory, MB", "resident_mb"), line("descriptors", "descriptors"), line("threads", "threads")]
        + [(name, [(it["minute"], it[key] / 1000) for it in samples]) for name, key in (("call p99, ms", "call_p99_us"), ("event p99, ms", "event_p99_us"))],
    )
    (folder / "soak.svg").write_text(picture)
    print(soak.counts)
    for it in found:
        print("FAULT:", it)
    sys.exit(bool(found))


main()
