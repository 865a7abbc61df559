"""Simulates the part of Live's object model that scripts use. README.md lists the rules that it enforces."""


class Undo:
    """Live's undo list. An entry is a list of attributes with their old values. Undo swaps old and current values."""

    def __init__(self):
        self.done = []
        self.undone = []
        self.step = None
        self.replaying = False

    def record(self, target, name, old, apart=False):
        if self.replaying:
            return
        self.undone.clear()
        if self.step is not None and not apart:
            self.step.append((target, name, old))
        else:
            self.done.append([(target, name, old)])

    def begin(self):
        self.end()
        self.step = []

    def end(self):
        step, self.step = self.step, None
        if step:
            self.done.append(step)

    def swap(self, take, give):
        if not take:
            return
        self.replaying = True
        back = []
        for target, name, old in reversed(take.pop()):
            back.append((target, name, target.__dict__[name]))
            target.__dict__[name] = old
            target.notify(name.lstrip("_"))
            if name == "clip":
                target.notify("has_clip")
        self.replaying = False
        give.append(back)


class Observable:
    """Properties with listeners. Changes of the properties in `undoable` are added to the undo list; changes of those in `apart` become separate entries."""

    undoable = ()
    apart = ()
    integers = ()
    booleans = ()
    texts = ()

    def __init__(self, undo=None):
        self.__dict__["_listeners"] = {}
        self.__dict__["_undo"] = undo
        self.__dict__["_ready"] = False

    def __getattr__(self, name):
        if name.startswith("add_") and name.endswith("_listener"):
            prop = name[4:-9]
            if prop != "notes" and not hasattr(self, prop):
                raise AttributeError(name)
            return lambda callback: self._listeners.setdefault(prop, []).append(callback)
        if name.startswith("remove_") and name.endswith("_listener"):
            prop = name[7:-9]

            def remove(callback):
                found = self._listeners.get(prop, [])
                if callback not in found:
                    raise RuntimeError("Observer not connected")
                found.remove(callback)

            return remove
        if name.endswith("_has_listener"):
            prop = name[:-13]
            return lambda callback: callback in self._listeners.get(prop, [])
        raise AttributeError(name)

    def _fits(self, name, value):
        # Live's setters check types: a float for an integer property raises an ArgumentError, which is a TypeError.
        number = isinstance(value, (int, float))
        if name in self.integers and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError("Python argument types in None.None(%s, %s) did not match C++ signature" % (type(self).__name__, type(value).__name__))
        if name in self.booleans and (not number or isinstance(value, float)):
            raise TypeError("a switch takes a bool, not %s" % type(value).__name__)
        if name in self.texts and not isinstance(value, str):
            raise TypeError("a name is a str, not %s" % type(value).__name__)
        return bool(value) if name in self.booleans else value

    def __setattr__(self, name, value):
        if self.__dict__.get("_ready"):
            value = self._fits(name, value)
            if name in self.undoable and self.__dict__.get(name) != value:
                self._undo.record(self, name, self.__dict__.get(name), name in self.apart)
        self.__dict__[name] = value
        self.notify(name)

    def notify(self, name):
        for callback in list(self._listeners.get(name, [])):
            callback()


class Tup(tuple):
    def __getitem__(self, index):
        try:
            return tuple.__getitem__(self, index)
        except IndexError:
            raise IndexError("Index out of range")


class Param(Observable):
    undoable = ("_value",)
    apart = ("_value",)

    def __init__(self, undo, name, low, high, value, quantized=False):
        super().__init__(undo)
        self.name = self.original_name = name
        self.min, self.max, self._default, self.is_quantized = low, high, value, quantized
        self.is_enabled, self.automation_state = True, 0
        self._value = float(value)
        self._ready = True

    @property
    def default_value(self):
        if self.is_quantized:
            raise RuntimeError("quantized parameters have no default value")
        return self._default

    @property
    def value(self):
        return self._value

    def __setattr__(self, name, value):
        if name != "value":
            return super().__setattr__(name, value)
        if not self.min <= value <= self.max:
            raise RuntimeError("Invalid value. Check the parameters range with min/max")
        super().__setattr__("_value", float(value))
        self.notify("value")

    def str_for_value(self, value):
        return "%.2f" % value


class Device(Observable):
    def __init__(self, undo, name, class_name, kind, params):
        super().__init__(undo)
        self.name = self.class_display_name = name
        self.class_name, self.type, self.parameters = class_name, kind, tuple(params)
        self.can_have_chains = self.can_have_drum_pads = False
        self.is_active = True
        self._ready = True


def switch(undo):
    return Param(undo, "Device On", 0, 1, 1, True)


def make_device(undo, name):
    table = {
        "EQ Eight": ("Eq8", 2, [("1 Frequency A", 0, 1, 0.5)]),
        "Compressor": ("Compressor2", 2, [("Threshold", 0, 1, 0.8)]),
        "Reverb": ("Reverb", 2, [("Decay Time", 0, 1, 0.4), ("Dry/Wet", 0, 1, 0.55)]),
        "Drum Rack": ("DrumGroupDevice", 1, [("Macro 1", 0, 127, 0)]),
    }
    if name not in table:
        raise RuntimeError("no device is called %s" % name)
    class_name, kind, params = table[name]
    return Device(undo, name, class_name, kind, [switch(undo)] + [Param(undo, *it) for it in params])


class MidiNoteSpecification:
    def __init__(self, pitch, start_time, duration, velocity=100.0, mute=False, probability=1.0, velocity_deviation=0.0, release_velocity=64.0):
        if not isinstance(pitch, int) or isinstance(pitch, bool):
            raise TypeError("pitch takes an int, not %s" % type(pitch).__name__)
        if not 0 <= pitch <= 127:
            raise RuntimeError("pitch out of range")
        if not duration > 0:
            raise RuntimeError("duration must be above 0")
        self.pitch, self.start_time, self.duration = pitch, float(start_time), float(duration)
        self.velocity, self.mute, self.probability = velocity, bool(mute), probability
        self.velocity_deviation, self.release_velocity = velocity_deviation, release_velocity


class Note:
    def __init__(self, number, spec, duration=None):
        self.__dict__.update(spec.__dict__)
        self.note_id = number
        if duration is not None:
            self.duration = duration


def settle(notes):
    """Of two notes with the same pitch and start, keeps the one added last. Cuts a note where the next note of the same pitch starts."""
    last = {}
    for note in notes:
        last[(note.pitch, note.start_time)] = note
    kept = sorted(last.values(), key=lambda it: (it.pitch, it.start_time))
    for n in range(len(kept) - 1):
        a, b = kept[n], kept[n + 1]
        if a.pitch == b.pitch and a.start_time + a.duration > b.start_time + 1e-9:
            kept[n] = Note(a.note_id, a, b.start_time - a.start_time)
    return kept


class Clip(Observable):
    undoable = ("name", "color", "color_index", "muted", "looping", "loop_start", "loop_end", "start_marker", "end_marker", "_notes")
    integers = ("color", "color_index", "launch_mode", "launch_quantization", "pitch_coarse", "warp_mode")
    booleans = ("muted", "looping", "legato")
    texts = ("name",)

    def __init__(self, undo, length, midi=True, name="", start=0.0, arrangement=False):
        super().__init__(undo)
        self._notes, self._next = [], 1
        self.name, self.is_midi_clip, self.is_audio_clip, self.is_arrangement_clip = name, midi, not midi, arrangement
        self.color, self.color_index, self.muted, self.looping = 0, 0, False, True
        self.loop_start, self.loop_end, self.start_marker, self.end_marker = 0.0, float(length), 0.0, float(length)
        self.start_time, self.end_time = float(start), float(start + length)
        self.is_playing = self.is_recording = self.is_triggered = self.is_overdubbing = self.will_record_on_start = False
        self.playing_position = self.position = self.velocity_amount = 0.0
        self.launch_mode = self.launch_quantization = 0
        self.legato = self.has_groove = False
        self.signature_numerator = self.signature_denominator = 4
        if not midi:
            self.gain, self.pitch_coarse, self.pitch_fine, self.warp_mode, self.warping, self.ram_mode = 0.5, 0, 0.0, 0, True, False
            self.file_path, self.sample_length, self.gain_display_string = "/audio/vox_take.wav", 44100, "0 dB"
        self._ready = True

    @property
    def length(self):
        return self.loop_end - self.loop_start

    def __setattr__(self, name, value):
        if self.__dict__.get("_ready"):
            if (name == "loop_start" and value >= self.loop_end) or (name == "loop_end" and value <= self.loop_start):
                raise RuntimeError("Invalid loop: the start must be below the end")
            if name == "color_index" and not 0 <= value <= 69:
                raise RuntimeError("Invalid color index")
        super().__setattr__(name, value)

    def _inside(self, pitch, span, start, length):
        self._need_midi()
        return [it for it in self._notes if pitch <= it.pitch < pitch + span and start <= it.start_time < start + length]

    def _need_midi(self):
        if not self.is_midi_clip:
            raise RuntimeError("Can only access notes of MIDI clips")

    def get_notes_extended(self, from_pitch, pitch_span, from_time, time_span):
        return tuple(sorted(self._inside(from_pitch, pitch_span, from_time, time_span), key=lambda it: (it.pitch, it.start_time)))

    def get_all_notes_extended(self):
        return self.get_notes_extended(0, 128, -1e9, 2e9)

    def add_new_notes(self, specs):
        self._need_midi()
        new = []
        for spec in specs:
            new.append(Note(self._next, spec))
            self._next += 1
        self._notes = settle(self._notes + new)
        self.notify("notes")
        return tuple(it.note_id for it in new)

    def remove_notes_extended(self, from_pitch, pitch_span, from_time, time_span):
        doomed = set(it.note_id for it in self._inside(from_pitch, pitch_span, from_time, time_span))
        self._notes = [it for it in self._notes if it.note_id not in doomed]
        self.notify("notes")

    def fire(self):
        self.is_playing = True

    def stop(self):
        self.is_playing = False


class ClipSlot(Observable):
    undoable = ("clip",)

    def __init__(self, undo, track):
        super().__init__(undo)
        self._track, self.clip = track, None
        self.has_stop_button, self.controls_other_clips, self.is_group_slot = True, False, track.is_foldable
        self.is_playing = self.is_triggered = self.will_record_on_start = False
        self.playing_status = 0
        self._ready = True

    @property
    def has_clip(self):
        return self.clip is not None

    def _put(self, clip):
        self.clip = clip
        self.notify("has_clip")

    def create_clip(self, length):
        if self.is_group_slot or not self._track.has_midi_input:
            raise RuntimeError("Can only create clips in MIDI tracks")
        if self.clip is not None:
            raise RuntimeError("Clip slot already has a clip")
        if not length > 0:
            raise RuntimeError("length must be > 0")
        self._put(Clip(self._undo, length))

    def delete_clip(self):
        if self.clip is None:
            raise RuntimeError("Clip slot has no clip")
        self._put(None)

    def fire(self):
        self._track.playing_slot_index = self._track.clip_slots.index(self)
        if self.clip:
            self.clip.fire()

    def stop(self):
        pass


class Mixer(Observable):
    def __init__(self, undo, sends):
        super().__init__(undo)
        self.volume = Param(undo, "Track Volume", 0, 1, 0.85)
        self.panning = Param(undo, "Track Panning", -1, 1, 0)
        self.sends = Tup(Param(undo, chr(65 + n) + "-Send", 0, 1, 0) for n in range(sends))
        self.track_activator = Param(undo, "Track Activator", 0, 1, 1, True)


class Routing:
    def __init__(self, name):
        self.display_name = name


class TakeLane(Observable):
    def __init__(self, undo, name):
        super().__init__(undo)
        self.name, self.clips = name, ()


class Track(Observable):
    undoable = ("name", "mute", "solo", "_arm", "clip_slots", "devices", "_arranged", "color", "color_index")
    apart = ("name",)
    integers = ("color", "color_index", "current_monitoring_state")
    booleans = ("mute", "solo", "_arm")
    texts = ("name",)

    def __init__(self, song, name, kind, slots, sends=2):
        undo = song._undo
        super().__init__(undo)
        self.song, self.name, self.is_foldable = song, name, kind == "group"
        self.has_midi_input = self.has_midi_output = kind == "midi"
        self.has_audio_input = kind == "audio"
        self.has_audio_output = kind != "midi"
        self.mute = self.solo = self._arm = False
        self.can_be_armed = kind in ("midi", "audio")
        self.color = self.color_index = 0
        self.current_monitoring_state = 1
        self.is_grouped, self.group_track, self.is_visible, self.is_frozen = False, None, True, False
        self.fired_slot_index = self.playing_slot_index = -1
        self.output_meter_level = self.output_meter_left = self.output_meter_right = 0.0
        self._arranged, self.devices, self.take_lanes = (), (), ()
        self.clip_slots = Tup(ClipSlot(undo, self) for _ in range(slots))
        self.mixer_device = Mixer(undo, sends)
        for way in ("output", "input"):
            kinds, channels = (Routing("Main"), Routing("Ext. Out")), (Routing("1/2"),)
            for part, found in (("type", kinds), ("channel", channels)):
                self.__dict__["available_%s_routing_%ss" % (way, part)] = found
                self.__dict__["%s_routing_%s" % (way, part)] = found[0]
        self._ready = True

    @property
    def muted_via_solo(self):
        return any(it.solo for it in self.song.tracks) and not self.solo and not self.mute

    @property
    def arm(self):
        if not self.can_be_armed:
            raise RuntimeError("Track cannot be armed")
        return self._arm

    @property
    def arrangement_clips(self):
        if self.is_foldable or self not in self.song.tracks:
            raise RuntimeError("Group, return and main tracks have no arrangement clips")
        return Tup(self._arranged)

    @property
    def fold_state(self):
        if not self.is_foldable:
            raise RuntimeError("not a group track")
        return False

    def __setattr__(self, name, value):
        if name == "arm":
            if not self.can_be_armed:
                raise RuntimeError("Track cannot be armed")
            super().__setattr__("_arm", value)
            return self.notify("arm")
        super().__setattr__(name, value)

    def add_arrangement_clip(self, clip):
        self._arranged = tuple(sorted(self._arranged + (clip,), key=lambda it: it.start_time))
        self.notify("arrangement_clips")

    def delete_clip(self, clip):
        if clip not in self._arranged:
            raise RuntimeError("no such clip")
        self._arranged = tuple(it for it in self._arranged if it is not clip)
        self.notify("arrangement_clips")

    def delete_device(self, index):
        devices = list(self.devices)
        del devices[index]
        self.devices = tuple(devices)

    def stop_all_clips(self, quantized=True):
        self.playing_slot_index = -1
        for slot in self.clip_slots:
            if slot.clip:
                slot.clip.is_playing = False


def insert_device(track, name, index=-1):
    """Added to `Track` for simulated versions of Live that have this function."""
    devices = list(track.devices)
    devices.insert(len(devices) if index < 0 else index, make_device(track._undo, name))
    track.devices = tuple(devices)


class Scene(Observable):
    integers = ("color", "color_index", "time_signature_numerator", "time_signature_denominator")
    texts = ("name",)

    def __init__(self, song, name=""):
        super().__init__(song._undo)
        self._song = song
        self.name, self.color, self.color_index, self.is_triggered = name, 0, 0, False
        self.tempo, self.tempo_enabled = 120.0, False
        self.time_signature_numerator = self.time_signature_denominator = 4
        self.time_signature_enabled = False
        self.fired = 0
        self._ready = True

    @property
    def is_empty(self):
        index = self._song.scenes.index(self)
        return not any(it.clip_slots[index].has_clip for it in self._song.tracks)

    def fire(self):
        self.fired += 1
        index = self._song.scenes.index(self)
        for track in self._song.tracks:
            track.clip_slots[index].fire()


class CuePoint(Observable):
    def __init__(self, name, time):
        super().__init__()
        self.name, self.time = name, time


class View(Observable):
    def __init__(self, song):
        super().__init__()
        self.selected_track, self.selected_scene, self.detail_clip, self.highlighted_clip_slot = song.tracks[0], song.scenes[0], None, None


class Song(Observable):
    undoable = ("tempo", "tracks", "scenes", "return_tracks")
    integers = ("root_note", "signature_numerator", "signature_denominator", "clip_trigger_quantization", "midi_recording_quantization")
    booleans = ("record_mode", "metronome", "loop", "session_record")
    texts = ("scale_name",)

    def __init__(self, scenes):
        super().__init__(Undo())
        self.tempo, self.root_note, self.scale_name, self.scale_mode = 124.0, 0, "Minor", True
        self.scale_intervals = (0, 2, 3, 5, 7, 8, 10)
        self.signature_numerator = self.signature_denominator = 4
        self.current_song_time = self.groove_amount = self.loop_start = 0.0
        self.loop_length, self.song_length = 4.0, 64.0
        self.clip_trigger_quantization, self.midi_recording_quantization, self.session_record_status = 4, 0, 0
        for name in ("arrangement_overdub back_to_arranger is_ableton_link_enabled loop metronome nudge_down nudge_up punch_in punch_out "
                     "record_mode session_record is_playing").split():
            setattr(self, name, False)
        self.tracks, self.cue_points = Tup(), ()
        self.scenes = Tup(Scene(self) for _ in range(scenes))
        self.return_tracks = Tup(Track(self, name, "return", 0, 0) for name in ("A-Reverb", "B-Delay"))
        self.master_track = Track(self, "Main", "main", 0, 0)
        self._ready = True

    def add(self, name, kind):
        track = Track(self, name, kind, len(self.scenes))
        self.tracks = Tup(self.tracks + (track,))
        return track

    @property
    def visible_tracks(self):
        return self.tracks

    @property
    def can_undo(self):
        return bool(self._undo.done)

    @property
    def can_redo(self):
        return bool(self._undo.undone)

    def __setattr__(self, name, value):
        if name == "tempo" and self.__dict__.get("_ready") and not 20 <= value <= 999:
            raise RuntimeError("Invalid tempo. It must be in the range of 20 to 999")
        super().__setattr__(name, value)

    def begin_undo_step(self):
        self._undo.begin()

    def end_undo_step(self):
        self._undo.end()

    def undo(self):
        self._undo.end()
        self._undo.swap(self._undo.done, self._undo.undone)

    def redo(self):
        self._undo.swap(self._undo.undone, self._undo.done)

    def _insert(self, index, kind):
        found = list(self.tracks)
        index = len(found) if index in (-1, None) else index
        if not 0 <= index <= len(found):
            raise IndexError("Index out of range")
        track = Track(self, "%d-%s" % (index + 1, "MIDI" if kind == "midi" else "Audio"), kind, len(self.scenes))
        found.insert(index, track)
        self.tracks = Tup(found)
        return track

    def create_midi_track(self, index=-1):
        return self._insert(index, "midi")

    def create_audio_track(self, index=-1):
        return self._insert(index, "audio")

    def delete_track(self, index):
        doomed = self.tracks[index]
        if len(self.tracks) == 1:
            raise RuntimeError("the last track cannot be deleted")
        self.tracks = Tup(it for it in self.tracks if it is not doomed and it.group_track is not doomed)

    def create_scene(self, index=-1):
        self._undo.begin()
        index = len(self.scenes) if index == -1 else index
        self.scenes = Tup(self.scenes[:index] + (Scene(self),) + self.scenes[index:])
        for track in self.tracks:
            track.clip_slots = Tup(track.clip_slots[:index] + (ClipSlot(self._undo, track),) + track.clip_slots[index:])
        self._undo.end()

    def delete_scene(self, index):
        self._undo.begin()
        self.scenes = Tup(self.scenes[:index] + self.scenes[index + 1:])
        for track in self.tracks:
            track.clip_slots = Tup(track.clip_slots[:index] + track.clip_slots[index + 1:])
        self._undo.end()

    def start_playing(self):
        self.is_playing = True

    continue_playing = start_playing

    def stop_playing(self):
        self.is_playing = False

    def stop_all_clips(self, quantized=True):
        for track in self.tracks:
            track.stop_all_clips()


class App:
    version = (12, 2, 0)
    average_process_usage = 3.5

    def get_major_version(self):
        return self.version[0]

    def get_minor_version(self):
        return self.version[1]

    def get_bugfix_version(self):
        return self.version[2]

    def get_document(self):
        return song


def recorded_song():
    """The Set with which the OSC exchanges were recorded."""
    made = Song(8)
    for name, kind in (("Drums", "midi"), ("Bass", "midi"), ("Vocals", "audio"), ("Gtr", "audio")):
        made.add(name, kind)
    made.tracks[2].devices = (make_device(made._undo, "EQ Eight"), make_device(made._undo, "Compressor"))
    return made


def story_song():
    """The Set of the test that runs on every host: the tracks of `examples/sets/golden.als`, with similar clips."""
    made = Song(2)
    for name, kind in (("Drums", "midi"), ("Bass", "midi"), ("Vocals", "audio")):
        made.add(name, kind)
    drums, bass, vocals = made.tracks
    drums.devices = (make_device(made._undo, "Drum Rack"),)
    vocals.devices = (make_device(made._undo, "EQ Eight"), make_device(made._undo, "Compressor"))
    beat = Clip(made._undo, 4, name="Beat")
    beat.add_new_notes([MidiNoteSpecification(36 + 2 * n, float(n), 0.5) for n in range(4)])
    drums.clip_slots[0].clip = beat
    bass.clip_slots[0].clip = Clip(made._undo, 4, name="Bassline")
    bass.add_arrangement_clip(Clip(made._undo, 8, name="Bass arr", start=8.0, arrangement=True))
    vocals.add_arrangement_clip(Clip(made._undo, 16, midi=False, name="Vox take", arrangement=True))
    return made


song = None
app = App()


def start(which, version):
    global song
    song = story_song() if which == "story" else recorded_song()
    song._undo.done.clear()
    song.view = View(song)
    app.version = tuple(int(it) for it in version.split("."))
    if app.version >= (12, 3):
        Track.insert_device = insert_device
