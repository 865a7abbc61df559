#!/usr/bin/env python3
"""Writes src/objects/max.tsv, the embedded table of Max classes, from a max-objects.json.

usage: tools/max_table.py path/to/max-objects.json

Columns: class, family, inlets, outlets, outlet types, size, box, flags, rules, attributes, then one column per argument.
`-` means "not known". Rules are separated by `; `, the fields of a rule by spaces.
"""
import json
import os
import sys

HEAD = """\
# Facts about Max object classes: counts, types, sizes, names of arguments and attributes. Written by tools/max_table.py.
# Reduced from the object table of MaxPyLang (MIT, Copyright (c) 2025 Ranger Liu and other contributors); see THIRD-PARTY-NOTICES.md.
"""


def number(value):
    return f"{value:g}"


def rule(entry):
    fields = [entry["port"], entry["from"]]
    for key, value in entry.items():
        if key in ("port", "from", "types"):
            continue
        if isinstance(value, bool):
            fields.append(key)
        elif isinstance(value, list):
            fields.append(f"{key}={','.join(map(str, value))}")
        else:
            fields.append(f"{key}={value}")
    for key, value in entry.get("types", {}).items():
        fields.append(f"{key}={','.join(value) if isinstance(value, list) else value}")
    return " ".join(fields)


def main(path):
    data = json.load(open(path))
    lines = []
    for name, tokens in data["type_tokens"].items():
        lines.append("\t".join(["!types", name] + [f"{k}={v}" for k, v in tokens.items()]))
    for short, full in sorted(data["aliases"].items()):
        lines.append(f"!alias\t{short}\t{full}")
    for space, classes in data["namespaces"].items():
        for name, counts in classes.items():
            lines.append(f"!namespace\t{space}\t{name}\t{counts['inlets']}\t{counts['outlets']}")
    for name, entry in sorted(data["objects"].items()):
        count = lambda key: "-" if entry[key] is None else str(entry[key])
        flags = [f"also={i},{o}" for i, o in entry.get("also", [])]
        flags += [f"decided_by={entry['decided_by']}"] if "decided_by" in entry else []
        flags += ["approximate"] if entry.get("approximate") else []
        types = entry["outlet_types"]
        columns = [
            name,
            entry["family"],
            count("inlets"),
            count("outlets"),
            "-" if types is None else ",".join(types),
            "x".join(map(number, entry["size"])),
            entry.get("box", "-"),
            " ".join(flags),
            "; ".join(map(rule, entry.get("arg_rules", []))),
            " ".join(f"{k}:{v}" for k, v in (entry.get("attributes") or {}).items()),
        ] + entry.get("args", [])
        assert not any("\t" in c or "\n" in c for c in columns), name
        lines.append("\t".join(columns))
    out = os.path.join(os.path.dirname(__file__), "..", "src", "objects", "max.tsv")
    with open(out, "w") as file:
        file.write(HEAD + "\n".join(lines) + "\n")
    print(f"{len(data['objects'])} classes, {os.path.getsize(out)} bytes")


main(sys.argv[1])
