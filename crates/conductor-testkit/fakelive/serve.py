"""Simulates Live for a bridge: runs its ticks, and executes commands on stdin as if a person used Live.

    serve.py script SCRIPTS [options]   runs the control surface `Conductor` of the folder SCRIPTS
    serve.py osc [options]              answers as AbletonOSC does

A command is a line of JSON: {"run": "song.tempo = 99"} or {"look": "song.tempo"}. Its answer is a line of JSON. {"quit": true}, or the
end of stdin, quits as if a person quit Live.
"""

import argparse
import json
import select
import sys
import time

import lom


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["script", "osc"])
    parser.add_argument("scripts", nargs="?")
    parser.add_argument("--song", default="story")
    parser.add_argument("--live", default="12.2.0")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tick-ms", type=float, default=5)
    return parser.parse_args()


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def order(line):
    told = json.loads(line)
    names = {"song": lom.song, "lom": lom}
    try:
        if "run" in told:
            exec(told["run"], names)
            say({"ok": True})
        else:
            say({"ok": eval(told["look"], names)})
    except Exception as fault:
        say({"error": "%s: %s" % (type(fault).__name__, fault)})


def main():
    args = options()
    lom.start(args.song, args.live)
    if args.what == "osc":
        from osc import Server

        server = Server(args.port)
        tick, end, ready = server.tick, server.socket.close, {"port": server.port}
    else:
        import Live

        sys.path.insert(0, args.scripts)
        import Conductor

        surface = Conductor.create_instance(None)
        end, ready = surface.disconnect, {}

        def tick():
            surface.pump()
            for timer in Live.timers:
                timer.fire()

    say(ready)
    wait, buffer = args.tick_ms / 1000, ""
    due = time.monotonic()
    while True:
        due = max(due + wait, time.monotonic())
        while True:
            left = max(0.0, due - time.monotonic())
            if not select.select([sys.stdin], [], [], left)[0]:
                break
            buffer = sys.stdin.readline()
            if not buffer or json.loads(buffer).get("quit"):
                end()
                return
            order(buffer)
        tick()


main()
