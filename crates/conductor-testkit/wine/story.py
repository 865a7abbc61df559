"""Walks the demo studio with conductor.exe under Wine: the tour, calls through the pipes, MCP over
stdio, a second daemon, a killed daemon, and the configurations of AI clients.

Usage: story.py CONDUCTOR.EXE, with WINEPREFIX and the tools of `.ci/test-windows`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

PATIENCE = 120


def windows_path(path):
    return "Z:" + path.replace("/", "\\")


class Studio:
    def __init__(self, program, home):
        self.program = program
        self.home = home

    def start(self, *arguments, **options):
        command = ["wine", self.program, "--home", windows_path(self.home), *arguments]
        return subprocess.Popen(command, text=True, encoding="utf-8", errors="replace", **options)

    def run(self, *arguments):
        process = self.start(
            *arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def ask(self, *arguments):
        code, out, err = self.run("--json", *arguments)
        assert code == 0, f"{arguments}: exit code {code}\n{out}\n{err}"
        return json.loads(out)

    def up(self, *arguments):
        """Starts the daemon, and returns it with the text that it prints until it is ready."""
        daemon = self.start(
            "up", *arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        errors = []
        threading.Thread(target=lambda: errors.extend(daemon.stderr), daemon=True).start()
        greeting = []
        for line in daemon.stdout:
            greeting.append(line)
            if "Events and actions appear below" in line or '"ready"' in line:
                threading.Thread(target=lambda: list(daemon.stdout), daemon=True).start()
                return daemon, "".join(greeting)
        daemon.wait(timeout=PATIENCE)
        raise AssertionError(f"the daemon ended: {''.join(greeting)}{''.join(errors)}")

    def terminate(self):
        """Ends the daemon with TerminateProcess."""
        pid = self.ask("status")["pid"]
        subprocess.run(["wine", "taskkill", "/F", "/PID", str(pid)], capture_output=True, timeout=PATIENCE, check=True)


class Mcp:
    """A client that speaks MCP over the stdin and stdout of `conductor mcp start`."""

    def __init__(self, studio):
        pipe = subprocess.PIPE
        self.process = studio.start("mcp", "start", stdin=pipe, stdout=pipe, stderr=pipe)
        self.asked = 0

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.asked += 1
        self.send({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.asked:
                assert "result" in answer, answer
                return answer["result"]
        raise AssertionError(f"no answer to {method}: {self.process.stderr.read()}")

    def greet(self):
        info = {"name": "story", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def end(self):
        """Closes the input, and returns the exit code."""
        self.process.stdin.close()
        return self.process.wait(timeout=PATIENCE)


def version(studio):
    code, out, _ = studio.run("--version")
    assert code == 0 and out.startswith("conductor "), out


def tour(studio):
    daemon, greeting = studio.up("--demo")
    commands = re.findall(r"^  \d+\. .*?conductor(?:\.exe)?\"? (.*)$", greeting, re.MULTILINE)
    assert len(commands) == 5, greeting
    for command in commands:
        words = [it.strip("'\"") for it in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", command)]
        if words[0] == "monitor":
            continue
        code, out, err = studio.run(*words)
        assert code == 0 and out.strip(), f"{command}: {code}\n{out}\n{err}"
    status = studio.ask("status")
    assert status["current_mode"], status
    studio.daemon = daemon


def second_daemon(studio):
    pid = studio.ask("status")["pid"]
    code, _, err = studio.run("up")
    assert code != 0 and f"pid {pid}" in err, err


def call_through_the_pipe(studio):
    devices = studio.ask("call", "conductor_list_devices", "{}")
    assert "pads" in json.dumps(devices), devices


def mcp_over_stdio(studio):
    client = Mcp(studio)
    client.greet()
    assert client.ask("tools/list", {})["tools"]
    answer = client.ask("tools/call", {"name": "conductor_get_status", "arguments": {}})
    assert not answer.get("isError"), answer
    assert client.end() == 0, client.process.stderr.read()


def no_decision_without_a_terminal(studio):
    code, out, err = studio.run("performance", "off")
    assert code != 0, f"{out}{err}"


def killed_and_started_again(studio):
    studio.terminate()
    studio.daemon.wait(timeout=PATIENCE)
    code, out, err = studio.run("audit", "verify")
    assert code in (0, 14), f"{code}\n{out}\n{err}"
    daemon, _ = studio.up("--demo")
    assert studio.ask("status")["pid"]
    code, out, err = studio.run("audit", "verify")
    assert code == 0, f"{code}\n{out}\n{err}"
    studio.terminate()
    daemon.wait(timeout=PATIENCE)


def a_client_starts_the_daemon(studio):
    client = Mcp(studio)
    client.greet()
    assert client.end() == 0, client.process.stderr.read()
    studio.terminate()


def client_configurations(studio):
    clients = studio.ask("mcp", "setup", "--status")["clients"]
    assert len(clients) > 5, clients
    for client in clients:
        code, out, err = studio.run("mcp", "setup", client["client"], "--print")
        assert code == 0 and "conductor.exe" in out, f"{client}: {out}{err}"


STEPS = [
    version,
    tour,
    second_daemon,
    call_through_the_pipe,
    mcp_over_stdio,
    no_decision_without_a_terminal,
    killed_and_started_again,
    a_client_starts_the_daemon,
    client_configurations,
]


def main():
    built = sys.argv[1]
    folder = tempfile.mkdtemp(prefix="Stüdio mit Räumen 日本 ")
    program = os.path.join(folder, "conductor.exe")
    shutil.copy(built, program)
    studio = Studio(program, os.path.join(folder, "home ä"))
    passed = failed = 0
    try:
        for step in STEPS:
            try:
                step(studio)
                passed += 1
                print(f"test story::{step.__name__} ... ok", flush=True)
            except Exception as fault:  # The next steps still say something.
                failed += 1
                print(f"test story::{step.__name__} ... FAILED\n{fault!r}", flush=True)
    finally:
        subprocess.run(["wineserver", "-k"], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored")
    sys.exit(1 if failed else 0)


main()
