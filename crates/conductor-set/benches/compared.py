"""Does the same work as `compared.rs` with gzip and lxml: opens a Set, moves one note, saves it. Prints milliseconds and memory as JSON."""

import gzip
import io
import json
import resource
import sys
import time

from lxml import etree


def main():
    with open(sys.argv[1], "rb") as file:
        als = file.read()
    start = time.perf_counter()
    xml = gzip.decompress(als)
    tree = etree.parse(io.BytesIO(xml), etree.XMLParser(huge_tree=True))
    opened = time.perf_counter()
    note = tree.find("LiveSet/Tracks/MidiTrack/DeviceChain/MainSequencer/ClipSlotList/ClipSlot/ClipSlot/Value/MidiClip").find(".//MidiNoteEvent")
    note.set("Time", "0.125")
    edited = time.perf_counter()
    text = etree.tostring(tree, encoding="UTF-8", xml_declaration=True)
    saved = gzip.compress(text, 6)
    done = time.perf_counter()
    json.dump(
        {
            "open_ms": (opened - start) * 1e3,
            "edit_ms": (edited - opened) * 1e3,
            "save_ms": (done - edited) * 1e3,
            "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            "xml": len(xml),
            "bytes": len(saved),
        },
        sys.stdout,
    )


main()
