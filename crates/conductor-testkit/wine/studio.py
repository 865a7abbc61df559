"""Drives conductor.exe under Wine: commands, an MCP client over stdio, and a person at a console."""

import json
import os
import pty
import re
import select
import subprocess
import threading
import time
import tty

PATIENCE = 60


def windows_path(path):
    return "Z:" + path.replace("/", "\\")


class Studio:
    """The program and the home of one studio."""

    def __init__(self, program, home, prefix=None):
        self.program = program
        self.home = home
        self.environment = {**os.environ, "CONDUCTOR_HOME": windows_path(home)}
        if prefix:
            self.environment["WINEPREFIX"] = prefix
        self.folder = os.path.dirname(program)

    def start(self, *arguments, folder=None, **options):
        return subprocess.Popen(
            ["wine", self.program, *arguments],
            text=True,
            encoding="utf-8",
            errors="replace",
            env=self.environment,
            cwd=folder or self.folder,
            **options,
        )

    def run(self, *arguments, folder=None, stdin=None):
        process = self.start(
            *arguments, folder=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = process.communicate(stdin or "", timeout=PATIENCE)
        return process.returncode, out, err

    def ask(self, *arguments, **options):
        code, out, err = self.run("--json", *arguments, **options)
        assert code == 0, f"{arguments}: exit code {code}\n{out}\n{err}"
        return json.loads(out)

    def up(self, *arguments):
        """Starts the daemon, and returns the text that it prints until it is ready."""
        self.daemon = self.start(
            "up", *arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        errors, greeting, daemon = [], [], self.daemon
        last = "Events and actions appear below" if "--demo" in arguments else "  http"
        watchdog = threading.Timer(PATIENCE, daemon.kill)
        watchdog.start()
        threading.Thread(target=lambda: errors.extend(daemon.stderr), daemon=True).start()
        for line in daemon.stdout:
            greeting.append(line)
            if line.startswith(last):
                watchdog.cancel()
                threading.Thread(target=lambda: list(daemon.stdout), daemon=True).start()
                return "".join(greeting)
        daemon.wait(timeout=PATIENCE)
        raise AssertionError(f"the daemon ended: {''.join(greeting)}{''.join(errors)}")

    def pid(self):
        return self.ask("status")["pid"]

    def terminate(self, pid=None):
        """Ends the daemon with TerminateProcess."""
        kill = ["wine", "taskkill", "/F", "/PID", str(pid or self.pid())]
        subprocess.run(kill, env=self.environment, capture_output=True, timeout=PATIENCE, check=True)
        if getattr(self, "daemon", None):
            self.daemon.wait(timeout=PATIENCE)
            self.daemon = None


class Mcp:
    """A client that speaks MCP over the stdin and stdout of `conductor mcp start`."""

    def __init__(self, studio, *arguments):
        pipe = subprocess.PIPE
        self.process = studio.start("mcp", "start", *arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        self.asked = 0
        info = {"name": "story", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        answer = self.exchange(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def exchange(self, method, params):
        watchdog = threading.Timer(PATIENCE, self.process.kill)
        watchdog.start()
        try:
            return self.answer(method, params)
        finally:
            watchdog.cancel()

    def answer(self, method, params):
        self.asked += 1
        self.send({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.asked and "method" not in answer:
                return answer
        raise AssertionError(f"no answer to {method}: {self.process.stderr.read()}")

    def call(self, tool, arguments):
        answer = self.exchange("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            return True, answer["error"]["data"]
        answer = answer["result"]
        return bool(answer.get("isError")), answer.get("structuredContent") or answer

    def ok(self, tool, arguments):
        failed, answer = self.call(tool, arguments)
        assert not failed, f"{tool} {arguments}: {answer}"
        return answer

    def refused(self, tool, arguments, *codes):
        failed, answer = self.call(tool, arguments)
        assert failed and answer.get("code") in codes, f"{tool} {arguments}: {answer}"
        return answer

    def end(self):
        """Closes the input, and returns the exit code."""
        self.process.stdin.close()
        return self.process.wait(timeout=PATIENCE)


class Person:
    """A person at a console: a `cmd.exe` in a pseudo-terminal, in the folder of the program. As on
    Windows, a console that was open before an AI client started can answer its questions."""

    def __init__(self, studio):
        self.seen = ""
        self.pid, self.keys = pty.fork()
        if self.pid == 0:
            # Wine expects each key as it is typed, so use raw mode.
            tty.setraw(0)
            os.chdir(studio.folder)
            os.execvpe("wine", ["wine", "cmd.exe"], studio.environment)
        self.until(r">$")
        self.type("echo ready=%ERRORLEVEL%=")
        self.until(r"ready=(\d+)=")

    def type(self, line):
        os.write(self.keys, (line + "\r").encode())

    def until(self, pattern):
        # The console draws the text with escape sequences.
        escape = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\r\n]")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = re.search(pattern, escape.sub("", self.seen))
            if found:
                return found
            if select.select([self.keys], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.keys, 65536).decode("utf-8", "replace")
                except OSError:
                    break
        raise AssertionError(f"the console shows no {pattern}: {self.seen[-2000:]!r}")

    def run(self, command, answers=()):
        """Types a command, and answers its questions. Returns the exit code and the screen."""
        self.seen = ""
        self.type(f"conductor.exe {command}")
        for question, answer in answers:
            self.until(question)
            # Conductor refuses an answer that arrives before a person could have read the question.
            time.sleep(2)
            self.type(answer)
        self.type("echo done=%ERRORLEVEL%=")
        code = int(self.until(r"done=(\d+)=").group(1))
        return code, self.seen

    def does(self, command, answers=()):
        code, screen = self.run(command, answers)
        assert code == 0, f"{command}: {code}\n{screen}"
        return screen

    def leave(self):
        try:
            self.type("exit")
            os.waitpid(self.pid, 0)
        finally:
            os.close(self.keys)
