"""A simulation of the module `Live`, which control-surface scripts import."""

import types

import lom

Track = types.SimpleNamespace(Track=lom.Track)
Clip = types.SimpleNamespace(MidiNoteSpecification=lom.MidiNoteSpecification, Clip=lom.Clip)
Song = types.SimpleNamespace(Song=lom.Song)
Device = types.SimpleNamespace(Device=lom.Device)
Application = types.SimpleNamespace(get_application=lambda: lom.app)
MidiMap = types.SimpleNamespace(map_midi_cc=lambda *a: None, MapMode=types.SimpleNamespace(absolute=0))

timers = []


class Timer:
    def __init__(self, callback, interval, repeat=False, start=False):
        self._callback, self._running = callback, False
        timers.append(self)
        if start:
            self.start()

    def start(self):
        self._running = True

    def stop(self):
        self._running = False

    def fire(self):
        if self._running:
            self._callback()


Base = types.SimpleNamespace(Timer=Timer)
