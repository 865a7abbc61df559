"""An OSC server that behaves like AbletonOSC on the simulated object model: same addresses, same answers, same error texts, and no answer
where AbletonOSC sends none.

The server polls once per tick and handles several messages in each tick. An error ends the tick; the next tick handles the remaining
messages.
"""

import os
import socket
import struct

import lom
from Live import Application


def pad(data):
    return data + b"\0" * (4 - len(data) % 4)


def encode(address, values):
    tags, body = ",", b""
    for value in values:
        if value is True or value is False:
            tags += "T" if value else "F"
        elif value is None:
            tags += "N"
        elif isinstance(value, int):
            tags += "i"
            body += struct.pack(">i", value)
        elif isinstance(value, float):
            tags += "f"
            body += struct.pack(">f", value)
        else:
            tags += "s"
            body += pad(str(value).encode())
    return pad(address.encode()) + pad(tags.encode()) + body


def decode(data):
    def text(at):
        end = data.index(b"\0", at)
        return data[at:end].decode(), (end // 4 + 1) * 4

    address, at = text(0)
    tags, at = text(at)
    values = []
    for tag in tags[1:]:
        if tag in "if":
            values.append(struct.unpack(">" + tag, data[at : at + 4])[0])
            at += 4
        elif tag == "s":
            value, at = text(at)
            values.append(value)
        else:
            values.append({"T": True, "F": False, "N": None}[tag])
    return address, values


def song_get(name, values):
    song = lom.song
    if name == "num_tracks":
        return [len(song.tracks)]
    if name == "num_scenes":
        return [len(song.scenes)]
    if name == "track_names":
        return [it.name for it in song.tracks]
    if name == "scenes/name":
        return [it.name for it in song.scenes]
    if name == "cue_points":
        return [part for it in song.cue_points for part in (it.name, it.time)]
    if name == "track_data":
        return track_data(values)
    return [getattr(song, name)]


def track_data(values):
    first, last, words = values[0], values[1], values[2:]
    last = len(lom.song.tracks) if last == -1 else last
    out = []
    for n in range(first, last):
        track = lom.song.tracks[n]
        for word in words:
            kind, name = word.split(".")
            if kind == "track":
                out.append(len(track.devices) if name == "num_devices" else getattr(track, name))
            elif kind == "clip":
                out += [getattr(it.clip, name) if it.clip else None for it in track.clip_slots]
            elif kind == "clip_slot":
                out += [getattr(it, name) for it in track.clip_slots]
            elif kind == "device":
                out += [getattr(it, name) for it in track.devices]
    return out


def track_get(name, values):
    track = lom.song.tracks[values[0]]
    mixer = track.mixer_device
    if name in ("volume", "panning"):
        found = [getattr(mixer, name).value]
    elif name == "send":
        return values[:2] + [mixer.sends[values[1]].value]
    elif name == "num_devices":
        found = [len(track.devices)]
    elif "/" in name:
        group, name = name.split("/")
        if group == "clips":
            found = [getattr(it.clip, name) if it.clip else None for it in track.clip_slots]
        else:
            found = [getattr(it, name) for it in getattr(track, group)]
    else:
        found = [getattr(track, name)]
    return [values[0]] + found


def track_set(name, values):
    track = lom.song.tracks[values[0]]
    if name in ("volume", "panning"):
        getattr(track.mixer_device, name).value = values[1]
    elif name == "send":
        track.mixer_device.sends[values[1]].value = values[2]
    else:
        setattr(track, name, values[1])


def whole(values):
    if len(values) not in (0, 4):
        raise ValueError("Invalid number of arguments for /clip/get/notes. Either 0 or 4 arguments must be passed.")
    # AbletonOSC's default range does not include the highest key.
    return values or (0, 127, -8192, 16384)


def clip_get(name, values):
    clip = lom.song.tracks[values[0]].clip_slots[values[1]].clip
    if name == "notes":
        found = clip.get_notes_extended(*whole(values[2:]))
        return values[:2] + [part for it in found for part in (it.pitch, it.start_time, it.duration, it.velocity, it.mute)]
    return values[:2] + [getattr(clip, name)]


def clip_call(name, values):
    clip = lom.song.tracks[values[0]].clip_slots[values[1]].clip
    if name == "add/notes":
        rows = values[2:]
        new = []
        for n in range(0, len(rows), 5):
            pitch, start, duration, velocity, mute = rows[n : n + 5]
            new.append(lom.MidiNoteSpecification(pitch, start, duration, velocity, mute))
        clip.add_new_notes(new)
    elif name == "remove/notes":
        clip.remove_notes_extended(*whole(values[2:]))
    else:
        getattr(clip, name)()


def slot_call(name, values):
    slot = lom.song.tracks[values[0]].clip_slots[values[1]]
    getattr(slot, name)(*values[2:])


def device_get(name, values):
    device = lom.song.tracks[values[0]].devices[values[1]]
    if name.startswith("parameters/"):
        return values[:2] + [getattr(it, name[11:]) for it in device.parameters]
    if name.startswith("parameter/"):
        param = device.parameters[values[2]]
        shown = param.str_for_value(param.value) if name.endswith("value_string") else getattr(param, name[10:])
        return values[:3] + [shown]
    return values[:2] + [len(device.parameters) if name == "num_parameters" else getattr(device, name)]


def device_set(name, values):
    if name != "parameter/value":
        raise ValueError("not simulated: %s" % name)
    lom.song.tracks[values[0]].devices[values[1]].parameters[values[2]].value = values[3]


class Server:
    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.client = None
        self.listeners = {}
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "abletonosc-addresses.txt"), encoding="utf-8") as file:
            self.known = set(file.read().split())

    def send(self, address, values):
        try:
            self.socket.sendto(encode(address, values), self.client)
        except OSError:
            # AbletonOSC only logs a datagram that is too large; the client never receives it.
            pass

    def tick(self):
        while True:
            try:
                data, self.client = self.socket.recvfrom(65536)
            except OSError:
                return
            try:
                address, values = decode(data)
                if address not in self.known:
                    self.send("/live/error", ["Unknown OSC address: %s" % address])
                    continue
                reply = self.answer(address, values)
            except Exception as fault:
                self.send("/live/error", ["Error handling OSC message: %s" % fault])
                return
            if reply is not None:
                self.send(address, reply)

    def answer(self, address, values):
        if address == "/live/test":
            return ["ok"]
        if address == "/live/application/get/version":
            app = Application.get_application()
            return [app.get_major_version(), app.get_minor_version()]
        _, _, kind, rest = address.split("/", 3)
        way, _, name = rest.partition("/")
        if way in ("start_listen", "stop_listen"):
            return self.listen(kind, name, values, way == "start_listen")
        if way == "get":
            getters = {"song": song_get, "track": track_get, "clip": clip_get, "device": device_get}
            if kind in getters:
                return getters[kind](name, values)
            if kind == "scene":
                return values[:1] + [getattr(lom.song.scenes[values[0]], name)]
            return values[:2] + [getattr(lom.song.tracks[values[0]].clip_slots[values[1]], name)]
        if way == "set":
            if kind == "song":
                setattr(lom.song, name, values[0])
            elif kind == "clip":
                setattr(lom.song.tracks[values[0]].clip_slots[values[1]].clip, name, values[2])
            else:
                {"track": track_set, "device": device_set}[kind](name, values)
            return None
        if kind == "song":
            getattr(lom.song, rest)(*values)
        elif kind == "scene":
            getattr(lom.song.scenes[values[0]], rest)()
        else:
            {"clip": clip_call, "clip_slot": slot_call}[kind](rest, values)
        return None

    def listen(self, kind, name, values, start):
        found = lom.song if kind == "song" else lom.song.tracks[values[0]]
        key = (kind, name, tuple(values))
        if key in self.listeners:
            getattr(self.listeners[key][0], "remove_%s_listener" % name)(self.listeners.pop(key)[1])
        if not start:
            return None

        def changed():
            self.send("/live/%s/get/%s" % (kind, name), list(values) + [getattr(found, name)])

        getattr(found, "add_%s_listener" % name)(changed)
        self.listeners[key] = (found, changed)
        changed()
        return None
