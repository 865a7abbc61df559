"""Prints the contents of a Live Set as JSON: tempo, tracks, MIDI clips and their notes. Uses the gzip and XML modules of Python.

This script shares no code with conductor-set, so that it can check the Sets that conductor-set writes.
"""

import gzip
import json
import sys
import xml.etree.ElementTree as ET


def value(element, path):
    found = element.find(path)
    return None if found is None else found.get("Value")


def notes(clip):
    found = []
    for key in clip.findall("Notes/KeyTracks/KeyTrack"):
        pitch = int(value(key, "MidiKey"))
        for note in key.findall("Notes/MidiNoteEvent"):
            found.append((pitch, float(note.get("Time")), float(note.get("Velocity"))))
    return sorted(found, key=lambda n: (n[1], n[0]))


def clips(track):
    sequencer = track.find("DeviceChain/MainSequencer")
    if sequencer is None:
        return []
    session = sequencer.findall("ClipSlotList/ClipSlot/ClipSlot/Value/MidiClip")
    arranged = sequencer.findall("ClipTimeable/ArrangerAutomation/Events/MidiClip")
    arranged.sort(key=lambda c: float(c.get("Time")))
    return [{"name": value(c, "Name"), "notes": notes(c)} for c in session + arranged]


def tempo(live_set):
    main = live_set.find("MainTrack")
    main = live_set.find("MasterTrack") if main is None else main
    stored = main.find("DeviceChain/Mixer/Tempo")
    target = stored.find("AutomationTarget").get("Id")
    for envelope in main.findall("AutomationEnvelopes/Envelopes/AutomationEnvelope"):
        if value(envelope, "EnvelopeTarget/PointeeId") == target:
            return float(envelope.find("Automation/Events/FloatEvent").get("Value"))
    return float(value(stored, "Manual"))


def main():
    with gzip.open(sys.argv[1]) as file:
        live_set = ET.parse(file).getroot().find("LiveSet")
    tracks = [t for t in live_set.find("Tracks") if t.tag != "ReturnTrack"]
    told = {
        "tempo": tempo(live_set),
        "tracks": [{"name": value(t, "Name/EffectiveName"), "clips": clips(t)} for t in tracks],
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
