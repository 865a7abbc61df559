"""Starts the simulated programs of tests that run under Wine.

Every connection starts one program: the first line is its command as a JSON list, the bytes after
it are the program's input, and its output is sent back. If the client closes its side, the program
is killed; the connection closes when the program has ended. Only the programs of the list below
are started.

Usage: programs.py; prints the address, and ends when its input closes.
"""

import json
import socket
import subprocess
import sys
import threading

ALLOWED = ["python3", "node"]


def pump_in(client, stream, process):
    while data := stream.readline():
        try:
            process.stdin.write(data)
            process.stdin.flush()
        except OSError:
            break
    process.kill()


def pump_out(client, process):
    try:
        while data := process.stdout.read1(65536):
            client.sendall(data)
    except OSError:
        pass
    process.kill()
    process.wait()
    try:
        client.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    client.close()


def serve(client):
    stream = client.makefile("rb")
    command = json.loads(stream.readline())
    if command[0] not in ALLOWED:
        client.close()
        return
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
    threading.Thread(target=pump_in, args=(client, stream, process), daemon=True).start()
    pump_out(client, process)


def accept(listener):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client,), daemon=True).start()


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    sys.stdin.read()


main()
