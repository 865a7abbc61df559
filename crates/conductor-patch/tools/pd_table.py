#!/usr/bin/env python3
"""Writes src/objects/pd.tsv, the embedded table of Pd classes, from a running Pure Data.

usage: tools/pd_table.py CLASS_NAMES.txt                  (one name per line; `pd` must be on the path)
       tools/pd_table.py --check CLASS_NAMES.txt [TABLE]  compares with the table and writes nothing. Exit code: 0 same, 1 different,
                                                          3 the table was made with another version of Pd

Pd is started with this script in place of its window process. Every class is created with several argument lists, and the inlets and
outlets that Pd draws are counted. Each outlet is connected to a second box: Pd draws a signal cord two pixels wide. If the counts of a
class do not depend on the arguments, they are written as fixed. Otherwise a rule in RULES must predict the counts for every argument
list. If no rule does, the class is marked `approximate`.
"""
import difflib
import os
import re
import socket
import subprocess
import sys
import tempfile

# Inlets and outlets of GUI boxes. Pd draws them with other tags, so they are not counted by this script.
BY_HAND = {
    "bng": (1, 1), "tgl": (1, 1), "nbx": (1, 1), "hsl": (1, 1), "vsl": (1, 1), "hradio": (1, 1), "vradio": (1, 1),
    "vu": (2, 2), "cnv": (0, 0), "floatatom": (1, 1), "symbolatom": (1, 1), "listbox": (1, 1), "msg": (1, 1), "text": (0, 0),
}
GUI = set(BY_HAND)
ALIASES = {
    "b": "bang", "f": "float", "i": "int", "r": "receive", "s": "send", "r~": "receive~", "s~": "send~", "t": "trigger",
    "sel": "select", "v": "value", "del": "delay", "vd~": "delread4~", "hslider": "hsl", "vslider": "vsl", "my_numbox": "nbx",
    "my_canvas": "cnv", "toggle": "tgl", "rdb": "hradio", "radiobut": "hradio", "radiobutton": "hradio", "hdl": "hradio", "vdl": "vradio",
}
# Rules that must predict the number of inlets and outlets from the creation arguments.
RULES = {
    "trigger": ["outlets arg_count"],
    "pack": ["inlets arg_count"],
    "unpack": ["outlets arg_count"],
    "route": ["outlets arg_count add=1", "inlets args_at_least arg=2 then=1"],
    "select": ["outlets arg_count add=1", "inlets args_at_least arg=2 then=1"],
    "pipe": ["inlets arg_count floor=2", "outlets arg_count add=-1 floor=1"],
    "dac~": ["inlets arg_count"],
    "adc~": ["outlets arg_count fill=signal"],
    "send": ["inlets has_args with=1 without=2"],
    "float": [], "print": [],
    "notein": ["outlets has_args with=2 without=3"],
    "ctlin": ["outlets arg_count times=-1 add=3 floor=1"],
    "pgmin": ["outlets has_args with=1 without=2"],
    "bendin": ["outlets has_args with=1 without=2"],
    "touchin": ["outlets has_args with=1 without=2"],
    "polytouchin": ["outlets has_args with=2 without=3"],
    "readsf~": ["outlets arg_value arg=0 add=1 fill=signal last=bang"],
    "writesf~": ["inlets arg_value arg=0"],
    "expr": ["inlets dollar_max at_least=1", "outlets semicolon_count"],
    "expr~": ["inlets dollar_max at_least=1", "outlets semicolon_count fill=signal"],
    "fexpr~": ["inlets dollar_max at_least=1", "outlets semicolon_count fill=signal"],
    "get": ["outlets arg_count add=-1 floor=1"],
    "snake~ in": ["inlets arg_value arg=0"],
    "value": ["inlets has_args with=1 without=2"],
}
ARGUMENTS = {
    "expr": ["", "$f1", "$f1+$f2", r"$f1\; $f3"],
    "expr~": ["", "$v1", "$v1+$v2", r"$v1\; $v3"],
    "fexpr~": ["", "$x1", "$x1+$x2", r"$x1\; $x3"],
    "readsf~": ["", "1", "2", "4"],
    "writesf~": ["", "1", "2", "4"],
    "get": ["tmpl a", "tmpl a b", "tmpl a b c"],
}
TRIED = ["", "1", "1 2", "1 2 3", "1 2 3 4"]
# These classes are not created, because they would open a window, a socket or a process.
SKIP = {"canvas", "pd", "window", "netreceive", "netsend", "pd~", "clone"}
KNOWN = {"netreceive": (1, 2), "netsend": (1, 2)}
# Classes whose counts depend on words in the arguments. This script does not try such words.
BY_WORDS = {"sigmund~", "text sequence"}
APPROXIMATE = {"netreceive", "clone", "pd~"}


class Pd:
    def __init__(self, folder):
        server = socket.socket()
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        server.settimeout(10)
        port = server.getsockname()[1]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            ["pd", "-guiport", str(port), "-noaudio", "-noprefs", "-nomidi", "-nrt", "-sleepgrain", "0.5"], stdout=quiet, stderr=quiet)
        self.link, _ = server.accept()
        self.link.settimeout(5)
        server.close()
        fonts = "8 5 11 10 6 13 12 7 16 16 10 19 24 14 29 36 22 44 16 10 23 20 12 27 24 14 32 32 20 44 48 28 58 72 44 89"
        self.send(f"pd init {folder} 0 {fonts}", f"pd menunew probe.pd {folder}")
        text = self.until("pdtk_undomenu")
        self.version = ".".join(re.search(r"pdtk_pd_startup (\d+) (\d+) (\d+)", text).groups())
        self.canvas = re.search(r"pdtk_canvas_new (\.x[0-9a-f]+)", text).group(1)
        self.send(f"{self.canvas} map 1")

    def send(self, *messages):
        self.link.sendall("".join(m + ";\n" for m in messages).encode())

    def until(self, word):
        text = ""
        while word not in text:
            part = self.link.recv(65536).decode("utf8", "replace")
            if not part:
                raise RuntimeError("Pd closed the connection")
            text += part
            if "pdtk_ping" in part:
                self.send("pd ping")
        return text

    def acknowledged(self, *messages):
        self.send(*messages, f"{self.canvas} find +ack 1")
        return self.until("pdtk_showfindresult")


def clear(pd):
    pd.acknowledged(f"{pd.canvas} editmode 1", f"{pd.canvas} selectall", f"{pd.canvas} cut", f"{pd.canvas} editmode 0")


def probe(pd, name, arguments):
    """Returns (inlets, outlets, which outlets are signals), or None if Pd cannot create the class."""
    clear(pd)
    text = pd.acknowledged(f"{pd.canvas} obj 50 50 {name} {arguments}")
    if "couldn't create" in text:
        return None
    count = lambda side: len(set(re.findall(r"create rectangle[^;]*?-tags \{\{([^}]*?)\}[^;]*\{" + side + r"\}", text)))
    inlets, outlets = count("inlet"), count("outlet")
    # The second box. Its inlet accepts signal cords and control cords.
    pd.acknowledged(f"{pd.canvas} obj 300 300 snapshot~")
    signals = []
    for outlet in range(outlets):
        drawn = pd.acknowledged(f"{pd.canvas} connect 0 {outlet} 1 0")
        width = re.search(r"create line[^;]*-width (\d)[^;]*\{cord\}", drawn)
        signals.append(bool(width) and width.group(1) == "2")
    return inlets, outlets, tuple(signals)


def predict(rules, default, arguments):
    inlets, outlets = default
    words = arguments.split()
    for rule in rules:
        port, kind, *fields = rule.split()
        fields = dict(f.split("=", 1) for f in fields)
        n = lambda key, other=0: int(fields.get(key, other))
        dollars = [int(d) for d in re.findall(r"\$[a-z](\d)", arguments)]
        value = {
            "arg_count": lambda: len(words) if words else None,
            "arg_value": lambda: int(float(words[n("arg")])) if len(words) > n("arg") else None,
            "args_at_least": lambda: n("then") if len(words) >= n("arg") else None,
            "has_args": lambda: n("with") if words else n("without"),
            "dollar_max": lambda: max(dollars + [n("at_least")]),
            "semicolon_count": lambda: arguments.count(";") + 1,
        }[kind]()
        if value is None:
            continue
        value = max(value * n("times", 1) + n("add"), n("floor"))
        if port == "inlets":
            inlets = value
        else:
            outlets = value
    return inlets, outlets


def count(path):
    """Returns the text of the table, the version of Pd, and a summary with the classes that Pd could not create."""
    names = [line.strip() for line in open(path) if line.strip()]
    with tempfile.TemporaryDirectory() as folder:
        pd = Pd(folder)
        rows, refused = [], []
        for name in names:
            if name in SKIP or name in ALIASES or name in GUI:
                continue
            tried = ARGUMENTS.get(name, TRIED)
            answers = {a: probe(pd, name, a) for a in tried}
            answers = {a: v for a, v in answers.items() if v}
            if not answers:
                refused.append(name)
                continue
            base = answers.get("") or next(iter(answers.values()))
            rules, flags = RULES.get(name, []), ""
            wrong = [a for a, v in answers.items() if predict(rules, base[:2], a) != v[:2]]
            if wrong or name in BY_WORDS:
                print(f"{name}: approximate")
                rules, flags = [], "approximate"
            elif all(v[:2] == base[:2] for v in answers.values()):
                rules = []
            types = ",".join("signal" if s else "" for s in base[2])
            rows.append((name, "signal" if name.endswith("~") else "control", base[0], base[1], types, flags, "; ".join(rules)))
        for name, (inlets, outlets) in BY_HAND.items():
            rows.append((name, "gui", inlets, outlets, "," * (outlets - 1), "", ""))
        for name, (inlets, outlets) in KNOWN.items():
            rows.append((name, "control", inlets, outlets, "," * (outlets - 1), "approximate", ""))
        for name in sorted(APPROXIMATE - set(KNOWN)):
            rows.append((name, "control", "-", "-", "-", "decided_by=content", ""))
        pd.send("pd quit")
        pd.process.wait(5)
    lines = [f"# Facts about Pure Data classes, counted on Pd {pd.version} by tools/pd_table.py.", f"!version\t{pd.version}"]
    lines += [f"!alias\t{short}\t{full}" for short, full in sorted(ALIASES.items())]
    for name, family, inlets, outlets, types, flags, rules in sorted(rows):
        lines.append("\t".join([name, family, str(inlets), str(outlets), types, "-", "-", flags, rules, ""]))
    return "\n".join(lines) + "\n", pd.version, f"{len(rows)} classes of Pd {pd.version}; not created: {' '.join(refused)}"


def main(arguments):
    check = arguments[:1] == ["--check"]
    path, *table = arguments[1:] if check else arguments
    table = table[0] if table else os.path.join(os.path.dirname(__file__), "..", "src", "objects", "pd.tsv")
    counted, version, told = count(path)
    if not check:
        with open(table, "w") as file:
            file.write(counted)
        print(told)
        return 0
    with open(table) as file:
        kept = file.read()
    of = re.search(r"^!version\t(.*)$", kept, re.M)
    if not of or of.group(1) != version:
        print(f"the table was counted on Pd {of and of.group(1)}, but this is Pd {version}")
        return 3
    difference = list(difflib.unified_diff(kept.splitlines(), counted.splitlines(), table, f"Pd {version}", lineterm="", n=0))
    print("\n".join(difference) or told)
    return 1 if difference else 0


sys.exit(main(sys.argv[1:]))
