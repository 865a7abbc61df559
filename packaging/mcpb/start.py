"""Starts the server of an unpacked bundle as a client does, and calls a tool.

start.py FOLDER HOME: reads FOLDER/manifest.json, replaces its variables, and ends the daemon of HOME afterwards. The form
of the client names FOLDER itself as a folder to read: the request must wait for a person."""
import json
import os
import subprocess
import sys
import time

folder, home = (os.path.abspath(it) for it in sys.argv[1:3])
manifest = json.load(open(os.path.join(folder, "manifest.json")))
defaults = {name: option.get("default", "") for name, option in manifest["user_config"].items()}
defaults["home"] = home
defaults["folders"] = [folder]
variables = {"${__dirname}": folder, **{"${user_config.%s}" % name: value for name, value in defaults.items()}}


def fill(text):
    """The arguments for one text of the manifest: a variable with several values becomes several arguments."""
    if isinstance(variables.get(text), list):
        return variables[text]
    for name, value in variables.items():
        if isinstance(value, str):
            text = text.replace(name, value)
    return [text]


config = manifest["server"]["mcp_config"]
command = [word for it in [config["command"], *config["args"]] for word in fill(it)]
assert not any("${" in it for it in command), command
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(method, params, number=None):
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if number:
        message["id"] = number
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    while number:
        answer = json.loads(server.stdout.readline())
        if answer.get("id") == number:
            return answer["result"]


client = {"name": "bundle-check", "version": "1"}
hello = ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}, 1)
assert hello["serverInfo"]["name"] == "conductor", hello
ask("notifications/initialized", {})
tools = ask("tools/list", {}, 2)["tools"]
status = ask("tools/call", {"name": "conductor_get_status", "arguments": {}}, 3)
assert not status.get("isError"), status
pid = status["structuredContent"]["pid"]
refused = ask("tools/call", {"name": "filesystem.list", "arguments": {"path": folder}}, 4)
assert refused.get("isError"), refused
held = ask("tools/call", {"name": "conductor_get_status", "arguments": {}}, 5)["structuredContent"]["config"]["held"]
assert held == ["[tools]"], held
server.stdin.close()
server.wait(10)
os.kill(pid, 15)
for _ in range(100):
    if not os.path.exists(f"/proc/{pid}"):
        break
    time.sleep(0.1)
print(f"{hello['serverInfo']['name']} {hello['serverInfo']['version']}, {len(tools)} tools, the folder waits for a person")
