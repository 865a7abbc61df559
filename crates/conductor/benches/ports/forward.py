"""A typical MIDI forwarder written with mido. Prints `ready`, then forwards every message until its stdin is closed.

forward.py CLIENT callback   forwards in RtMidi's thread, the fastest way with mido
forward.py CLIENT loop       forwards in a loop over the input, as in mido's manual
"""
import os
import sys
import threading

import mido

mido.set_backend("mido.backends.rtmidi/UNIX_JACK")
client, form = sys.argv[1], sys.argv[2]
out = mido.open_output("out", virtual=True, client_name=client + "-out")
if form == "callback":
    port = mido.open_input("in", virtual=True, client_name=client + "-in", callback=out.send)
else:
    port = mido.open_input("in", virtual=True, client_name=client + "-in")

    def forward():
        for message in port:
            out.send(message)

    threading.Thread(target=forward, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
