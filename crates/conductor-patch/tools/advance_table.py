#!/usr/bin/env python3
"""Prints the Latin-1 advance widths, in 1/2048 em, of a TrueType font that shares Arial's metrics (Liberation Sans, Arimo).

usage: tools/advance_table.py LiberationSans-Regular.ttf
"""
import struct
import sys

data = open(sys.argv[1], "rb").read()
tables = {}
for n in range(struct.unpack(">H", data[4:6])[0]):
    tag, _, offset, length = struct.unpack(">4sIII", data[12 + 16 * n : 28 + 16 * n])
    tables[tag.decode()] = (offset, length)
em = struct.unpack(">H", data[tables["head"][0] + 18 :][:2])[0]
metrics = struct.unpack(">H", data[tables["hhea"][0] + 34 :][:2])[0]
cmap = tables["cmap"][0]
glyphs = {}
for n in range(struct.unpack(">H", data[cmap + 2 :][:2])[0]):
    platform, encoding, offset = struct.unpack(">HHI", data[cmap + 4 + 8 * n :][:8])
    table = cmap + offset
    if (platform, encoding) != (3, 1) or struct.unpack(">H", data[table:][:2])[0] != 4:
        continue
    segments = struct.unpack(">H", data[table + 6 :][:2])[0] // 2
    read = lambda at: struct.unpack(f">{segments}H", data[at : at + 2 * segments])
    ends, starts = read(table + 14), read(table + 16 + 2 * segments)
    deltas, ranges_at = read(table + 16 + 4 * segments), table + 16 + 6 * segments
    ranges = read(ranges_at)
    for code in range(256):
        for s in range(segments):
            if starts[s] <= code <= ends[s]:
                if ranges[s] == 0:
                    glyphs[code] = (code + deltas[s]) & 0xFFFF
                else:
                    at = ranges_at + 2 * s + ranges[s] + 2 * (code - starts[s])
                    glyphs[code] = struct.unpack(">H", data[at:][:2])[0]
                break
hmtx = tables["hmtx"][0]
width = lambda g: struct.unpack(">H", data[hmtx + 4 * min(g, metrics - 1) :][:2])[0]
assert em == 2048
row = []
for code in range(32, 256):
    row.append(str(width(glyphs[code]) if code in glyphs and not 127 <= code < 160 else 0))
for n in range(0, len(row), 16):
    print("    " + ", ".join(row[n : n + 16]) + ",")
