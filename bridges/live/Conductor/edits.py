"""Edits of the Set. The names and fields are the same as in Conductor's `LiveEdit`. The daemon has already checked the values.

Each edit does all its checks before it writes. Not here: undo steps (`_apply` in `surface`).
"""

from .path_ids import Refused, kinds, parse, wrong
from .reads import (
    arranged,
    clip_info,
    clip_of,
    device,
    kind_of,
    mark_of,
    midi_clip_of,
    param,
    param_of,
    slot_of,
    track_info,
    track_of,
    track_state,
)


class Done(object):
    """The result of an edit. `changed` lists the ids of the changed objects. `shared` is true if the edit is part of the shared entry in
    Live's undo list, and `apart` is the number of its separate undo entries. `marks` contains the marks of clips before and after the
    edit."""

    def __init__(self, outcome, changed, apart=0, shared=True, warnings=(), marks=None):
        self.marks = marks or {}
        self.outcome = outcome
        self.changed = changed
        self.apart = apart
        self.shared = shared
        self.warnings = list(warnings)


def set_tempo(song, edit, _live):
    song.tempo = float(edit["bpm"])
    return Done({"tempo": float(song.tempo)}, ["main"])


def set_track_props(song, edit, _live):
    path, props = edit["trackId"], edit["props"]
    track = track_of(song, path)
    if "arm" in props and not track.can_be_armed:
        raise Refused("WRONG_TYPE", "a %s track cannot be armed" % kind_of(track), path)
    renamed = "name" in props
    if renamed:
        track.name = props["name"]
    for key in ("mute", "solo", "arm"):
        if key in props:
            setattr(track, key, bool(props[key]))
    # Live always creates a separate undo entry for a rename.
    return Done(track_state(path, track), [path], apart=int(renamed), shared=len(props) > int(renamed))


def specification(live, note):
    return live.Clip.MidiNoteSpecification(
        pitch=int(note["pitch"]),
        start_time=float(note["startTime"]),
        duration=float(note["duration"]),
        velocity=float(note.get("velocity", 100)),
        mute=bool(note.get("muted", False)),
        probability=float(note.get("probability", 1)),
        velocity_deviation=float(note.get("velocityDeviation", 0)),
        release_velocity=float(note.get("releaseVelocity", 64)),
    )


def copy_of(live, found):
    """Converts a stored note to a specification, which can be added to a clip."""
    return live.Clip.MidiNoteSpecification(
        pitch=found.pitch,
        start_time=found.start_time,
        duration=found.duration,
        velocity=found.velocity,
        mute=found.mute,
        probability=found.probability,
        velocity_deviation=found.velocity_deviation,
        release_velocity=found.release_velocity,
    )


def replace_notes(song, edit, live):
    path = edit["clipId"]
    clip = midi_clip_of(song, path)
    window = edit.get("window")
    # All pitches. The span is 128, because a span of 127 would not include the highest key.
    region = (0, 128, -1e6, 2e6)
    if window:
        low, high = window.get("fromPitch", 0), window.get("toPitch", 127)
        region = (low, high - low + 1, float(window["fromBeat"]), float(window["toBeat"]) - float(window["fromBeat"]))
    new = tuple(specification(live, it) for it in edit["notes"])
    before = mark_of(clip.get_all_notes_extended())
    old = tuple(copy_of(live, it) for it in clip.get_notes_extended(*region))
    clip.remove_notes_extended(*region)
    try:
        if new:
            clip.add_new_notes(new)
    except Exception as fault:
        # Roll back, so that the clip does not keep half of a replacement.
        clip.remove_notes_extended(*region)
        if old:
            clip.add_new_notes(old)
        raise Refused("SDK_REJECTED", "Live refused the notes (%s); the old notes were restored" % fault, path)
    stored = clip.get_all_notes_extended()
    # Of two notes with the same pitch and start, Live keeps only the later one. It shortens a note that overlaps the next one.
    last = dict(((it.pitch, round(it.start_time, 4)), it.duration) for it in new)
    now = dict(((it.pitch, round(it.start_time, 4)), it.duration) for it in stored)
    adjusted = len(new) - sum(abs(now.get(place, -1) - length) < 1e-3 for place, length in last.items())
    outcome = {"id": path, "name": clip.name, "count": len(stored), "removed": len(old), "adjusted": adjusted}
    return Done(outcome, [path], shared=bool(new) or bool(old), marks={path: [before, mark_of(stored)]})


def create_track(song, edit, _live):
    make = song.create_midi_track if edit["kind"] == "midi" else song.create_audio_track
    make(-1)
    path = "track:%d" % (len(song.tracks) - 1)
    return Done(track_info(song, path), [path])


def create_midi_clip(song, edit, _live):
    path = edit["slotId"]
    if kinds(path) != ["track", "clipslot"]:
        raise wrong(path, "a session slot (track:N/clipslot:M)")
    track, slot = slot_of(song, path)
    if kind_of(track) != "midi":
        raise Refused("WRONG_TYPE", "a MIDI clip needs a MIDI track, and this is a %s track" % kind_of(track), path)
    if slot.has_clip:
        raise Refused("SDK_REJECTED", "%s already contains a clip" % path, path)
    slot.create_clip(float(edit["lengthBeats"]))
    outcome = {"clipId": path + "/clip", "slotId": path, "lengthBeats": float(slot.clip.length)}
    return Done(outcome, [path + "/clip"], marks={path + "/clip": ["absent", mark_of([])]})


def set_param(song, edit, _live):
    path, value = edit["paramId"], float(edit["value"])
    found = param_of(song, path)
    if not found.min <= value <= found.max:
        raise Refused("BAD_INPUT", "must be %g to %g, not %g" % (found.min, found.max, value), "value")
    if not found.is_enabled:
        raise Refused("SDK_REJECTED", "%s cannot be set: a macro or a mapping in Live controls it" % path, path)
    previous = float(found.value)
    found.value = value
    outcome = param(path, found, "pan" if path.endswith("/panning") else "live")
    outcome["previous"] = previous
    return Done(outcome, [path], apart=1, shared=False)


def insert_device(song, edit, live):
    path = edit["trackId"]
    track = track_of(song, path)
    if not hasattr(track, "insert_device"):
        raise Refused("UNSUPPORTED", "Live %s cannot insert devices; Live 12.3 or later is needed" % version(live), path)
    index = min(int(edit["index"]), len(track.devices))
    try:
        track.insert_device(edit["deviceName"], index)
    except RuntimeError as fault:
        raise Refused("SDK_REJECTED", "Live did not insert %r: %s" % (edit["deviceName"], fault), edit["deviceName"])
    made = device(path, index, track.devices[index])
    refs = [{"id": it["id"], "name": it["name"]} for it in made["params"]]
    outcome = {"trackId": path, "device": {"id": made["id"], "name": made["name"]}, "params": refs}
    return Done(outcome, [made["id"], path])


# The names of these properties in Live. Their values are in beats.
CLIP_PROPS = {
    "startMarker": "start_marker",
    "endMarker": "end_marker",
}


def set_clip_props(song, edit, _live):
    path, props = edit["clipId"], edit["props"]
    clip = clip_of(song, path)
    start, end = props.get("loopStart", clip.loop_start), props.get("loopEnd", clip.loop_end)
    if start >= end:
        raise Refused("BAD_INPUT", "loopStart (%g) must be below loopEnd (%g)" % (start, end), "props.loopEnd")
    if "looping" in props:
        clip.looping = bool(props["looping"])
    if "name" in props:
        clip.name = props["name"]
    if "muted" in props:
        clip.muted = bool(props["muted"])
    if "color" in props:
        clip.color_index = int(props["color"])
    # Live refuses a loop that ends before it starts, even for a moment. So the boundary that makes the loop longer is set first.
    ends = [("loop_end", end), ("loop_start", start)]
    if start < clip.loop_start:
        ends.reverse()
    for name, value in ends:
        if value != getattr(clip, name):
            setattr(clip, name, float(value))
    for key, name in CLIP_PROPS.items():
        if key in props:
            setattr(clip, name, float(props[key]))
    return Done(clip_info(path, clip), [path])


def delete_clip(song, edit, live):
    path = edit["clipId"]
    clip = clip_of(song, path)
    track = song.tracks[parse(path)[0][1]]
    if kinds(path) == ["track", "clipslot", "clip"]:
        slot_of(song, path)[1].delete_clip()
        return Done({"deleted": [path], "shifted": False}, [path])
    if not hasattr(track, "delete_clip"):
        raise Refused("UNSUPPORTED", "Live %s cannot delete arrangement clips from a script" % version(live), path)
    last = len(arranged(track)) - 1 == parse(path)[1][1]
    track.delete_clip(clip)
    return Done({"deleted": [path], "shifted": not last}, [path])


def delete_track(song, edit, _live):
    path = edit["trackId"]
    track_of(song, path)
    index, before = parse(path)[0][1], len(song.tracks)
    song.delete_track(index)
    # Deleting a group also deletes the tracks of the group, which have the next indices.
    count = before - len(song.tracks)
    return Done({"deleted": ["track:%d" % (index + n) for n in range(count)], "shifted": True}, [path])


def version(live):
    app = live.Application.get_application()
    return "%d.%d.%d" % (app.get_major_version(), app.get_minor_version(), app.get_bugfix_version())


EDITS = {
    "set_tempo": set_tempo,
    "set_track_props": set_track_props,
    "replace_notes": replace_notes,
    "create_track": create_track,
    "create_midi_clip": create_midi_clip,
    "set_param": set_param,
    "insert_device": insert_device,
    "set_clip_props": set_clip_props,
    "delete_clip": delete_clip,
    "delete_track": delete_track,
}
