"""A third-party MIDI program (mido on RtMidi), at the other end of a JACK cable, or of an ALSA cable if MIDI_API=LINUX_ALSA.

recv NAME SECONDS   prints `ready`, then every received message in hexadecimal, one per line, until a note-on 0 with velocity 1 on
                    channel 16 (the end mark) or until the time has passed; then `end`.
send NAME COUNT GAP_US   prints `ready`, waits for a line, sends COUNT pitch bends 0, 1, 2 ... with the gap between them.
each NAME            prints `ready`, then every received message at once, until it is killed.
hold NAME           prints `ready`, waits for a line, sends a note-on 60 and no note-off.
sysex NAME          prints `ready`, waits for a line, sends one SysEx of 8192 bytes that count up.
play NAME           prints `ready`, then reads messages in hexadecimal, one per line, and sends each.
relay IN OUT MS     prints `ready`, then forwards each message after MS milliseconds, on another channel and with another velocity.
"""
import os
import sys
import time

import mido

mido.set_backend("mido.backends.rtmidi/" + os.environ.get("MIDI_API", "UNIX_JACK"))
mode, name = sys.argv[1], sys.argv[2]
if mode == "recv":
    port = mido.open_input(name, virtual=True, client_name="peer")
    print("ready", flush=True)
    end = time.time() + float(sys.argv[3])
    while time.time() < end:
        message = port.poll()
        if message is None:
            time.sleep(0.001)
            continue
        if message.bytes() == [0x9F, 0, 1]:
            break
        print("".join("%02x" % byte for byte in message.bytes()), flush=False)
    print("end", flush=True)
elif mode == "send":
    port = mido.open_output(name, virtual=True, client_name="peer")
    print("ready", flush=True)
    sys.stdin.readline()
    gap = int(sys.argv[4]) / 1e6
    for value in range(int(sys.argv[3])):
        port.send(mido.Message("pitchwheel", pitch=value - 8192))
        time.sleep(gap)
    print("end", flush=True)
    sys.stdin.readline()
elif mode == "sysex":
    port = mido.open_output(name, virtual=True, client_name="peer")
    print("ready", flush=True)
    sys.stdin.readline()
    port.send(mido.Message("sysex", data=[i % 128 for i in range(8192)]))
    print("end", flush=True)
    sys.stdin.readline()
elif mode == "each":
    port = mido.open_input(name, virtual=True, client_name="peer")
    print("ready", flush=True)
    for message in port:
        print("".join("%02x" % byte for byte in message.bytes()), flush=True)
elif mode == "hold":
    port = mido.open_output(name, virtual=True, client_name="peer")
    print("ready", flush=True)
    sys.stdin.readline()
    port.send(mido.Message("note_on", note=60, velocity=80))
    sys.stdin.readline()
elif mode == "play":
    port = mido.open_output(name, virtual=True, client_name="peer")
    print("ready", flush=True)
    for line in sys.stdin:
        port.send(mido.Message.from_hex(line.strip()))
elif mode == "relay":
    source = mido.open_input(name, virtual=True, client_name="relay-in")
    target = mido.open_output(sys.argv[3], virtual=True, client_name="relay-out")
    print("ready", flush=True)
    waiting = []
    while True:
        message = source.poll()
        if message is not None:
            changes = {"channel": (message.channel + 5) % 16}
            if message.type == "note_on" and message.velocity:
                changes["velocity"] = 128 - message.velocity
            waiting.append((time.time() + int(sys.argv[4]) / 1000, message.copy(**changes)))
        while waiting and waiting[0][0] <= time.time():
            target.send(waiting.pop(0)[1])
        time.sleep(0.001)
