"""Detects changes to the Set: listeners record changes, and each tick collects the recorded changes.

`epoch` counts the changes after which an id may name another object. Adding an object at the end of a list is not such a change.
"""

from .reads import arranged


def identity(found):
    """Identifies an object of Live. Live's proxies are short-lived, so their own identity cannot be used."""
    return getattr(found, "_live_ptr", id(found))


def structure(song):
    """Returns the identities of tracks, their clips and devices, return tracks and scenes, in the order of their ids."""
    tracks = []
    for track in song.tracks:
        slots = [identity(slot.clip) if slot.has_clip else None for slot in track.clip_slots]
        tracks.append(
            {
                "self": identity(track),
                "slots": slots,
                "clips": [identity(it) for it in arranged(track)],
                "devices": [identity(it) for it in track.devices],
            }
        )
    return {
        "tracks": tracks,
        "returns": [identity(it) for it in song.return_tracks],
        "scenes": [identity(it) for it in song.scenes],
    }


def moved(old, new):
    """Whether an id that named an object now names another object, or no object."""
    if isinstance(old, dict):
        return any(moved(old[key], new[key]) for key in old)
    if isinstance(old, list):
        return len(new) < len(old) or any(moved(a, b) for a, b in zip(old, new))
    return old is not None and old != new


SONG = ("tracks", "return_tracks", "scenes", "tempo", "is_playing", "cue_points", "scale_name", "root_note")
TRACK = ("name", "mute", "solo", "clip_slots", "devices", "arrangement_clips", "playing_slot_index")
LISTS = ("tracks", "return_tracks", "scenes", "clip_slots", "devices", "arrangement_clips", "has_clip")


class Watch(object):
    def __init__(self, song):
        self.song = song
        self.epoch = 1
        self._hooks = []
        self._changes = set()
        self._structural = False
        self._known = structure(song)
        self._hook()

    def _listen(self, found, name, what, subject):
        def callback():
            self._changes.add((what, subject))
            if name in LISTS:
                self._structural = True

        try:
            getattr(found, "add_%s_listener" % name)(callback)
        except (AttributeError, RuntimeError):
            # Some tracks, and older versions of Live, do not have all of these properties.
            return
        self._hooks.append((found, name, callback))

    def _hook(self):
        for name in SONG:
            self._listen(self.song, name, "song", "main")
        for n, track in enumerate(self.song.tracks):
            path = "track:%d" % n
            for name in TRACK:
                self._listen(track, name, "track", path)
            for m, slot in enumerate(track.clip_slots):
                self._listen(slot, "has_clip", "clip", "%s/clipslot:%d/clip" % (path, m))
                if slot.has_clip:
                    for name in ("notes", "name"):
                        self._listen(slot.clip, name, "clip", "%s/clipslot:%d/clip" % (path, m))

    def unhook(self):
        for found, name, callback in self._hooks:
            try:
                getattr(found, "remove_%s_listener" % name)(callback)
            except Exception:
                # The object was deleted together with its listeners.
                pass
        self._hooks = []

    def collect(self):
        """Returns the changes since the last call, and whether ids moved. Increments the epoch if ids moved."""
        changes, self._changes = self._changes, set()
        if not self._structural:
            return sorted(changes), False
        self._structural = False
        now = structure(self.song)
        shifted = moved(self._known, now)
        if now != self._known:
            # New objects need listeners, and the ids of old objects may have new indices.
            self.unhook()
            self._hook()
        self._known = now
        if shifted:
            self.epoch += 1
        return sorted(changes), shifted
