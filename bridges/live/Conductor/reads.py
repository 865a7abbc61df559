"""Reads the Set and returns JSON in the format of Conductor's tools. Reads never change the Set.

In Live, reading an attribute that does not apply to an object raises RuntimeError. This error is reported as WRONG_TYPE.
"""

from itertools import islice

from .path_ids import Refused, at, kinds, parse, wrong


def kind_of(track):
    if track.is_foldable:
        return "group"
    return "midi" if track.has_midi_input else "audio"


def track_of(song, path):
    if kinds(path) != ["track"]:
        raise wrong(path, "a track (track:N)")
    return at(song.tracks, parse(path)[0][1], path)


def owner_of(song, path):
    """The track that has a device chain: a track, a return track or the main track."""
    kind, index = parse(path)[0]
    if kind == "track":
        return at(song.tracks, index, path)
    if kind == "returntrack":
        return at(song.return_tracks, index, path)
    if kind == "main":
        return song.master_track
    raise wrong(path, "a track with devices")


def slot_of(song, path):
    parts = parse(path)
    if kinds(path)[:2] != ["track", "clipslot"] or kinds(path)[2:] not in ([], ["clip"]):
        raise wrong(path, "a session slot (track:N/clipslot:M)")
    track = at(song.tracks, parts[0][1], path)
    return track, at(track.clip_slots, parts[1][1], path)


def arranged(track):
    """The arrangement clips of a track, ordered by start. Group, return and main tracks have none: Live raises RuntimeError for them."""
    try:
        return sorted(track.arrangement_clips, key=lambda clip: clip.start_time)
    except (RuntimeError, AttributeError):
        return []


def clip_of(song, path):
    segments = kinds(path)
    if segments == ["track", "clipslot", "clip"]:
        _, slot = slot_of(song, path)
        if not slot.has_clip:
            raise Refused("STALE_REFERENCE", "%s: the slot is empty" % path, path)
        return slot.clip
    if segments == ["track", "clip"]:
        parts = parse(path)
        return at(arranged(at(song.tracks, parts[0][1], path)), parts[1][1], path)
    raise wrong(path, "a clip (track:N/clipslot:M/clip or track:N/clip:M)")


def midi_clip_of(song, path):
    clip = clip_of(song, path)
    if not clip.is_midi_clip:
        raise Refused("WRONG_TYPE", "%s is an audio clip and has no notes" % path, path)
    return clip


def param_of(song, path):
    parts = parse(path)
    chain = kinds(path)[1:]
    track = owner_of(song, path)
    if chain == ["device", "param"]:
        device = at(track.devices, parts[1][1], path)
        return at(device.parameters, parts[2][1], path)
    if chain == ["mixer", "volume"]:
        return track.mixer_device.volume
    if chain == ["mixer", "panning"]:
        return track.mixer_device.panning
    if chain == ["mixer", "send"]:
        return at(track.mixer_device.sends, parts[2][1], path)
    raise wrong(path, "a parameter (.../device:N/param:M, .../mixer/volume, .../mixer/panning or .../mixer/send:N)")


def param(path, found, unit="live"):
    # Older versions of Live do not have this attribute.
    automation = getattr(found, "automation_state", None)
    return {
        "id": path,
        "name": found.name,
        "min": float(found.min),
        "max": float(found.max),
        "isQuantized": bool(found.is_quantized),
        # Live has no default for a stepped parameter.
        "defaultValue": None if found.is_quantized else float(found.default_value),
        "value": float(found.value),
        "unit": unit,
        "display": found.str_for_value(found.value),
        "rangeSource": "host",
        "automated": None if automation is None else bool(automation),
    }


def mixer(path, track):
    mixer_device = track.mixer_device
    found = [param(path + "/mixer/volume", mixer_device.volume), param(path + "/mixer/panning", mixer_device.panning, "pan")]
    for n, send in enumerate(mixer_device.sends):
        found.append(param("%s/mixer/send:%d" % (path, n), send))
    return found


def device(path, n, found):
    own = "%s/device:%d" % (path, n)
    return {
        "id": own,
        "name": found.name,
        "className": found.class_name,
        "isOn": bool(found.parameters[0].value) if found.parameters else None,
        "params": [param("%s/param:%d" % (own, m), it) for m, it in enumerate(found.parameters)],
    }


def devices(song, request):
    path = request.get("trackId")
    if len(parse(path)) != 1:
        raise wrong(path, "a track (track:N, returntrack:N or main)")
    track = owner_of(song, path)
    return {"devices": [device(path, n, it) for n, it in enumerate(track.devices)], "mixer": mixer(path, track)}


def track_row(n, track):
    return {"id": "track:%d" % n, "name": track.name, "type": kind_of(track)}


def track_state(path, track):
    arm = bool(track.arm) if track.can_be_armed else False
    return {"id": path, "name": track.name, "mute": bool(track.mute), "solo": bool(track.solo), "arm": arm}


def track_info(song, path):
    track = track_of(song, path)
    info = track_state(path, track)
    info.update(
        kind=kind_of(track),
        mutedViaSolo=bool(track.muted_via_solo),
        clipSlotCount=len(track.clip_slots),
        arrangementClipCount=len(arranged(track)),
        deviceCount=len(track.devices),
        mixer={
            "volume": float(track.mixer_device.volume.value),
            "panning": float(track.mixer_device.panning.value),
            "sendCount": len(track.mixer_device.sends),
        },
    )
    return info


def overview(song, _request):
    return {
        "tempo": float(song.tempo),
        "rootNote": int(song.root_note),
        "scaleName": song.scale_name,
        "scaleMode": bool(song.scale_mode),
        "scaleIntervals": [int(it) for it in song.scale_intervals],
        "timeSignature": "%d/%d" % (song.signature_numerator, song.signature_denominator),
        "returnTrackCount": len(song.return_tracks),
        "sceneCount": len(song.scenes),
        "cuePointCount": len(song.cue_points),
        "tracks": [track_row(n, it) for n, it in enumerate(song.tracks)],
    }


def clip_info(path, clip):
    is_midi = bool(clip.is_midi_clip)
    session = path.endswith("/clip")
    info = {
        "id": path,
        "isMidi": is_midi,
        "kind": "midi" if is_midi else "audio",
        "location": "session" if session else "arrangement",
        "name": clip.name,
        "startTime": float(clip.start_time),
        "endTime": float(clip.end_time),
        "duration": float(clip.end_time) - float(clip.start_time),
        "looping": bool(clip.looping),
        "loopStart": float(clip.loop_start),
        "loopEnd": float(clip.loop_end),
        "startMarker": float(clip.start_marker),
        "endMarker": float(clip.end_marker),
        "color": int(clip.color),
        "muted": bool(clip.muted),
    }
    if session:
        info["slotId"] = path[: -len("/clip")]
    if not is_midi:
        info["filePath"] = clip.file_path
    return info


def clips(song, request):
    """All clips in slots and in the arrangement, and the number of slots. The daemon adds the empty slots."""
    path = request.get("trackId")
    track = track_of(song, path)
    found = []
    for n, slot in enumerate(track.clip_slots):
        if slot.has_clip:
            found.append(clip_info("%s/clipslot:%d/clip" % (path, n), slot.clip))
    for n, clip in enumerate(arranged(track)):
        found.append(clip_info("%s/clip:%d" % (path, n), clip))
    return {"slots": len(track.clip_slots), "clips": found}


def clip(song, request):
    path = request.get("clipId")
    return clip_info(path, clip_of(song, path))


def one_param(song, request):
    path = request.get("paramId")
    return param(path, param_of(song, path), "pan" if path.endswith("/panning") else "live")


def note(found):
    return {
        "pitch": int(found.pitch),
        "startTime": float(found.start_time),
        "duration": float(found.duration),
        "velocity": float(found.velocity),
        "muted": bool(found.mute),
        "probability": float(found.probability),
        "velocityDeviation": float(found.velocity_deviation),
        "releaseVelocity": float(found.release_velocity),
    }


def fields(found):
    expression = (found.probability, found.velocity_deviation, found.release_velocity)
    return (found.start_time, found.pitch, found.duration, found.velocity, found.mute) + expression


def mark_of(found):
    """A hash of notes: equal notes have the same mark. Marks are valid until this script ends."""
    return "%x" % (hash(tuple(sorted(map(fields, found)))) & 0xFFFFFFFFFFFFFFFF)


def notes(song, request):
    found = midi_clip_of(song, request.get("clipId")).get_all_notes_extended()
    in_order = sorted(found, key=lambda it: (it.start_time, it.pitch))
    return {"notes": [note(it) for it in in_order], "mark": mark_of(found)}


def mark(song, request):
    return {"mark": mark_of(midi_clip_of(song, request.get("clipId")).get_all_notes_extended())}


def midi_clips(song):
    """All MIDI clips with their ids, in the order of the tracks."""
    for n, track in enumerate(song.tracks):
        for m, slot in enumerate(track.clip_slots):
            if slot.has_clip and slot.clip.is_midi_clip:
                yield "track:%d/clipslot:%d/clip" % (n, m), slot.clip
        for m, found in enumerate(arranged(track)):
            if found.is_midi_clip:
                yield "track:%d/clip:%d" % (n, m), found


def marks(song, request):
    """The marks of the first clips. The number is limited, because the request runs in one tick of Live's main thread."""
    found, left = {}, int(request.get("notes", 0))
    for path, clip in islice(midi_clips(song), int(request.get("clips", 0))):
        held = clip.get_all_notes_extended()
        left -= len(held)
        if left < 0:
            break
        found[path] = mark_of(held)
    return {"marks": found}


def scenes(song, _request):
    found = []
    for n, scene in enumerate(song.scenes):
        signature = "%d/%d" % (scene.time_signature_numerator, scene.time_signature_denominator)
        found.append(
            {
                "id": "scene:%d" % n,
                "name": scene.name,
                "tempo": float(scene.tempo) if scene.tempo_enabled else None,
                "timeSignature": signature if scene.time_signature_enabled else None,
                "isEmpty": bool(scene.is_empty),
            }
        )
    cues = sorted(song.cue_points, key=lambda it: it.time)
    return {
        "scenes": found,
        "cuePoints": [{"id": "cuepoint:%d" % n, "name": it.name, "beat": float(it.time)} for n, it in enumerate(cues)],
    }


def fingerprint(song, _request=None):
    """The values from which a revision is computed: tempo, track names and types, clip names per slot, starts of arrangement clips,
    device names."""
    tracks = []
    for track in song.tracks:
        slots = [slot.clip.name if slot.has_clip else None for slot in track.clip_slots]
        starts = [float(it.start_time) for it in arranged(track)]
        tracks.append([track.name, kind_of(track), slots, starts, [it.name for it in track.devices]])
    return [float(song.tempo), tracks]


def playing(song):
    return {"isPlaying": bool(song.is_playing), "beat": float(song.current_song_time), "tempo": float(song.tempo)}


def slot_or_scene(song, path):
    """Returns the slot or scene to launch."""
    segments = kinds(path)
    if segments == ["scene"]:
        return at(song.scenes, parse(path)[0][1], path)
    if segments == ["track", "clipslot", "clip"]:
        clip_of(song, path)
    if segments[:2] == ["track", "clipslot"]:
        return slot_of(song, path)[1]
    raise wrong(path, "a slot, a session clip or a scene")


OPS = {
    "overview": overview,
    "clips": clips,
    "clip": clip,
    "notes": notes,
    "mark": mark,
    "marks": marks,
    "track": lambda song, request: track_state(request.get("trackId"), track_of(song, request.get("trackId"))),
    "devices": devices,
    "param": one_param,
    "scenes": scenes,
    "fingerprint": lambda song, request: {"fingerprint": fingerprint(song)},
}
