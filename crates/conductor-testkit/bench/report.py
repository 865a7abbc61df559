#!/usr/bin/env python3
"""Runs all benchmarks and writes docs/benchmarks.md with its plots.

    report.py [quick]

A benchmark that has a peer measures Conductor and the peer in the same run. The page contains the
output of the benchmarks, the growth curves as plots, and a description of the machine. A line that
names a missed goal (in capitals) is listed at the top, and so is a benchmark that failed. The exit
code is 1 only if a benchmark failed. `quick` measures less, prints the page and leaves docs/ unchanged.
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import plot

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONDUCTOR = "cargo bench --locked --package conductor --features studio --bench"
CLIENTS = "crates/conductor-testkit/clients"

# Title, command, and the command for `quick` (None: `quick` leaves the benchmark out).
BENCHES = [
    ("Memory and start", f"{CONDUCTOR} footprint", f"{CONDUCTOR} footprint"),
    ("MIDI over JACK", f"{CONDUCTOR} ports", f"{CONDUCTOR} ports -- 64/5000/idle rounds=1"),
    ("Engine", "cargo bench --locked --package conductor-core --bench engine -- --quick", "cargo bench --locked --package conductor-core --bench engine -- --quick"),
    ("Live Sets", "cargo bench --locked --package conductor-set --bench compared", None),
    ("Worker lanes", f"{CONDUCTOR} lane -- --quick", None),
    ("Audit log", f"{CONDUCTOR} audit -- --quick", f"{CONDUCTOR} audit -- --quick"),
    ("Audit log with ten million records", f"{CONDUCTOR} audit_large", None),
    ("Plugins", f"{CONDUCTOR} plugins", None),
    ("Patches", f"{CONDUCTOR} patch", None),
    ("Calls", f"{CLIENTS}/bench", None),
    ("Calls of other programs", f"python3 {CLIENTS}/outside_bench.py target/release", None),
    ("Several rigs", "python3 crates/conductor-testkit/bench/rigs.py target/release/conductor", None),
    ("Console", "cargo test --release --locked --package conductor --features studio --test end_to_end -- --ignored --exact --nocapture console_page::a_thousand_events_a_second", None),
    ("Growth", f"{CONDUCTOR} growth", f"{CONDUCTOR} growth -- quick"),
]

# A benchmark prints one of these words in capitals when it misses a goal.
MISSED = re.compile(r"\b(NOT|MISSED|LOST|SLOWER|STRAY)\b")


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)
    load = os.getloadavg()[0]
    return [
        ("processor", f"{model.group(1) if model else platform.machine()}, {os.cpu_count()} cores"),
        ("memory", f"{int(memory.group(1)) / 2**20:.0f} GB" if memory else "unknown"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("compiler", subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip()),
        ("load before the run", f"{load:.2f}" + (" (the machine was not idle)" if load > 0.5 else "")),
    ]


def run(command):
    started = time.monotonic()
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    seconds = time.monotonic() - started
    lines = [it.rstrip() for it in done.stdout.splitlines()]
    if done.returncode:
        print(f"{command} failed:\n{done.stdout}\n{done.stderr}", file=sys.stderr, flush=True)
        lines.append(f"NOT MEASURED: the command failed with code {done.returncode}")
    points = [json.loads(it.removeprefix("BENCH ")) for it in lines if it.startswith("BENCH ")]
    return [it for it in lines if not it.startswith("BENCH ")], points, seconds


def curve_page(points, folder):
    """One plot and one table row per curve."""
    out, curves = [], {}
    for point in points:
        curves.setdefault((point["curve"], point["of"]), []).append(point)
    rows = ["| cost of | grows with | smallest | largest | factor |", "|---|---|---|---|---|"]
    for (name, of), line in curves.items():
        line.sort(key=lambda it: it["size"])
        first, last = line[0], line[-1]
        rows.append(
            f"| {name} | {of}, {first['size']} to {last['size']:,} | {first['median']:.3g} us ({first['low']:.3g} to {first['high']:.3g}) "
            f"| {last['median']:.3g} us ({last['low']:.3g} to {last['high']:.3g}) | {last['median'] / first['median']:.2f} |"
        )
        file = re.sub(r"[^a-z]+", "-", f"{name} {of}".lower()) + ".svg"
        lines = [(key, [(it["size"], max(it[key], 1e-3)) for it in line]) for key in ("median", "low", "high")]
        picture = plot.chart(f"Cost of {name} by {of}", of, "microseconds", lines, log_x=True, log_y=True)
        if folder:
            (folder / file).write_text(picture)
        out.append(f"![Cost of {name} by {of}](benchmarks/{file})\n")
    return rows + [""] + out


def main():
    quick = "quick" in sys.argv[1:]
    folder = None if quick else ROOT / "docs/benchmarks"
    if folder:
        folder.mkdir(exist_ok=True)
    page, missed = [], []
    for title, whole, short in BENCHES:
        command = short if quick else whole
        if command is None:
            continue
        print(f"{title}: {command}", file=sys.stderr, flush=True)
        lines, points, seconds = run(command)
        missed += [(title, it.strip()) for it in lines if MISSED.search(it)]
        page += [f"## {title}", "", f"`{command}` ({seconds:.0f} s)", ""]
        if any(lines):
            page += ["```text", *lines, "```", ""]
        if points:
            page += curve_page(points, folder) + [""]
    soak = ROOT / "docs/benchmarks/soak.json"
    if soak.exists():
        result = json.loads(soak.read_text())
        counts = ", ".join(f"{value:,} {name}" for name, value in result["counts"].items())
        page += ["## Soak", "", f"{result['hours']:g} h: {counts}.", "", "![Memory, descriptors, threads and latency](benchmarks/soak.svg)", ""]
        missed += [("Soak", it) for it in result["faults"]]
    head = ["# Benchmarks", "", "`make bench` writes this page. Each figure and the figure of its peer were measured in the same run.", ""]
    head += ["| machine | |", "|---|---|", *(f"| {name} | {text} |" for name, text in machine()), "", "## Missed goals", ""]
    head += [f"- {title}: {text}" for title, text in missed] or ["None."]
    text = "\n".join(head + [""] + page)
    if quick:
        print(text)
    else:
        (ROOT / "docs/benchmarks.md").write_text(text)
        print("written: docs/benchmarks.md", file=sys.stderr)
    sys.exit(any("NOT MEASURED" in text for _, text in missed))


main()
