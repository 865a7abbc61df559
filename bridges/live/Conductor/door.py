"""The socket for the daemon: one client on 127.0.0.1, one JSON object per line. The token and the secret are in a file that only this
user can read.

The script sends first: its token and a random number. A client can thus detect that another program has taken over the port. Then
script and client prove with HMAC-SHA256 that they have the secret, which is never sent. No function here blocks: each tick of Live's
main thread polls the sockets. Not here: the handling of requests (`surface`).
"""

import base64
import errno
import hashlib
import hmac
import json
import os
import socket
import time

PROTOCOL = 2
LINE_IN = 1 << 20
LINE_OUT = 8 << 20
HELLO_SECONDS = 2.0
AGAIN = (errno.EAGAIN, errno.EWOULDBLOCK)


def same(a, b):
    return hmac.compare_digest(a.encode("utf-8"), b.encode("utf-8"))


def proof(secret, role, first, second):
    """Returns the proof that this side has the secret, for the two random numbers of one connection."""
    text = "%s %s %s" % (role, first, second)
    return hmac.new(secret.encode("utf-8"), text.encode("utf-8"), hashlib.sha256).hexdigest()


def draw():
    return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii").rstrip("=")


def line(message):
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode("utf-8") + b"\n"


def home():
    """Returns the path of Conductor's home: from the file that the installation wrote next to this file, else the default."""
    written = os.path.join(os.path.dirname(os.path.abspath(__file__)), "home.txt")
    try:
        with open(written, encoding="utf-8") as file:
            path = file.read().strip()
        if path:
            return path
    except OSError:
        pass
    return os.path.join(os.path.expanduser("~"), ".conductor")


class Client(object):
    def __init__(self, connection, now):
        connection.setblocking(False)
        # Send a small answer at once, without waiting until the client acknowledged the previous answer.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.since = now
        self.greeted = False
        self.nonce = draw()
        self.closing = False
        self._in = b""
        self._out = b""

    def lines(self):
        """Returns the complete lines that have arrived. Raises ConnectionError if the client has disconnected."""
        while True:
            try:
                data = self.connection.recv(65536)
            except (BlockingIOError, InterruptedError):
                break
            if not data:
                raise ConnectionError("the client closed the connection")
            self._in += data
            if b"\n" not in self._in and len(self._in) > LINE_IN:
                break
        *whole, self._in = self._in.split(b"\n")
        if len(self._in) > LINE_IN or any(len(it) > LINE_IN for it in whole):
            self.say({"ok": False, "error": {"code": "BAD_INPUT", "message": "a line is longer than 1 MiB", "subject": None}})
            self.closing = True
        return [it for it in whole if it.strip() and len(it) <= LINE_IN]

    def say(self, message):
        try:
            data = line(message)
        except (TypeError, ValueError) as fault:
            data = b""
            why = "the answer cannot be written: %s" % fault
        else:
            why = "the answer is longer than 8 MiB"
        if not data or len(data) > LINE_OUT:
            error = {"code": "SDK_REJECTED", "message": why, "subject": None}
            data = line({"id": message.get("id"), "ok": False, "error": error})
        self._out += data
        self.flush()

    def flush(self):
        while self._out:
            try:
                sent = self.connection.send(self._out[:65536])
            except (BlockingIOError, InterruptedError):
                # Limit the buffer: otherwise a client that does not read would fill Live's memory.
                if len(self._out) > 2 * LINE_OUT:
                    raise ConnectionError("the client does not read its replies")
                return
            self._out = self._out[sent:]
        if self.closing:
            raise ConnectionError("the last answer was sent")

    def close(self):
        try:
            self.connection.close()
        except OSError:
            pass


class Door(object):
    """Serves one client. `answer(request)` returns the reply to a request, without its id."""

    def __init__(self, answer, greeting, log, clock=time.monotonic):
        self._answer = answer
        self._greeting = greeting
        self._log = log
        self._clock = clock
        self._client = None
        self._pending = []
        self._token = draw()
        self._secret = draw()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(2)
        self._listener.setblocking(False)
        self._file = os.path.join(home(), "state", "live-script.json")
        self._write_rendezvous()

    def _write_rendezvous(self):
        folder = os.path.dirname(self._file)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        text = json.dumps({"port": self._listener.getsockname()[1], "token": self._token, "secret": self._secret, "pid": os.getpid(), "protocol": PROTOCOL})
        fresh = "%s.%d" % (self._file, os.getpid())
        # The file is created with its final mode, so that other users can never read the token.
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.replace(fresh, self._file)

    def tick(self, budget):
        """Accepts, reads, answers and sends for about `budget` seconds. The next tick handles the remaining requests."""
        until = self._clock() + budget
        self._accept()
        client = self._client
        if client is None:
            return
        try:
            self._read()
            while self._pending and self._client is client:
                self._serve(client, self._pending.pop(0))
                if self._clock() >= until:
                    break
            client.flush()
            if not client.greeted and self._clock() - client.since > HELLO_SECONDS:
                raise ConnectionError("the client sent no hello")
        except OSError as fault:
            self._drop(str(fault))

    def _read(self):
        self._pending += self._client.lines()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as fault:
                if fault.errno not in AGAIN:
                    self._log("accept: %s" % fault)
                return
            # Read first, to notice whether the old client has disconnected since the last tick. If so, the new client
            # is accepted.
            if self._client is not None:
                try:
                    self._read()
                except OSError as fault:
                    self._drop(str(fault))
            if self._client is None:
                self._client = Client(connection, self._clock())
                try:
                    self._client.say({"token": self._token, "nonce": self._client.nonce})
                except OSError as fault:
                    self._drop(str(fault))
                continue
            late = Client(connection, self._clock())
            try:
                late.say({"ok": False, "error": {"code": "BUSY", "message": "another client is connected", "subject": None}})
            except OSError:
                pass
            late.close()

    def _serve(self, client, raw):
        try:
            request = json.loads(raw.decode("utf-8"))
        except ValueError:
            request = None
        if not isinstance(request, dict):
            raise ConnectionError("the client sent a line that is not a JSON object")
        if not client.greeted:
            theirs, proven = request.get("nonce"), request.get("proof")
            if request.get("op") != "hello" or not isinstance(theirs, str) or not isinstance(proven, str):
                raise ConnectionError("the client sent no hello")
            if not same(proven, proof(self._secret, "daemon", client.nonce, theirs)):
                raise ConnectionError("the client sent a wrong proof")
            client.greeted = True
            reply = self._greeting()
            reply["result"]["proof"] = proof(self._secret, "script", theirs, client.nonce)
        else:
            reply = self._answer(request)
        reply["id"] = request.get("id")
        client.say(reply)

    def send_event(self, event):
        """Sends an event to the client, if an authenticated client is connected."""
        client = self._client
        if client is not None and client.greeted:
            try:
                client.say(event)
            except OSError as fault:
                self._drop(str(fault))

    def _drop(self, why):
        self._log("the client is disconnected: %s" % why)
        if self._client is not None:
            self._client.close()
        self._client = None
        self._pending = []

    def close(self):
        self._drop("the control surface is closed")
        self._listener.close()
        try:
            with open(self._file, encoding="utf-8") as file:
                own = json.load(file).get("token") == self._token
            if own:
                os.remove(self._file)
        except (OSError, ValueError):
            pass
