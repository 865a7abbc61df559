"""Conductor inside Ableton Live: a control surface that lets the Conductor daemon on this machine read and edit the open Set.

Choose "Conductor" under Settings > Link, Tempo & MIDI > Control Surface. Nothing listens beyond 127.0.0.1, and only a program that
can read the token file in Conductor's home is let in.
"""


def create_instance(c_instance):
    from .surface import Conductor

    return Conductor(c_instance)
