"""A control surface of Ableton Live that lets the Conductor daemon on this machine read and edit the open Set.

Choose "Conductor" under Settings > Link, Tempo & MIDI > Control Surface. The script listens only on 127.0.0.1, and accepts only a
program that can read the token file in Conductor's home.
"""


def create_instance(c_instance):
    from .surface import Conductor

    return Conductor(c_instance)
