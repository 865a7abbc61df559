"""Opens, lists, edits and saves one .maxpat with py2max and with MaxPyLang. Prints one JSON line per round with the milliseconds per step.

The start of the interpreter is not measured. Usage: patch_peers.py FILE ROUNDS
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import time


def timed(steps):
    times = {}
    value = None
    for name, step in steps:
        start = time.perf_counter()
        value = step(value)
        times[name] = (time.perf_counter() - start) * 1000
    return times


def py2max_round(path, out):
    from py2max import Patcher

    def edit(patcher):
        patcher.add_textbox("metro 100")
        return patcher

    def listed(patcher):
        rows = [(box.id, getattr(box, "text", None), box.patching_rect) for box in patcher._boxes]
        assert rows
        return patcher

    return timed(
        [
            ("open", lambda _: Patcher.from_file(path)),
            ("list", listed),
            ("edit", edit),
            ("save", lambda patcher: patcher.save_as(out)),
        ]
    )


def maxpylang_round(path, out):
    import maxpylang

    def edit(patch):
        patch.place("metro 100", verbose=False)
        return patch

    def listed(patch):
        boxes = {key: obj._dict["box"] for key, obj in patch.objs.items()}
        rows = [(key, box.get("text"), box["patching_rect"]) for key, box in boxes.items()]
        assert rows
        return patch

    return timed(
        [
            ("open", lambda _: maxpylang.MaxPatch(load_file=path, reorder=False, verbose=False)),
            ("list", listed),
            ("edit", edit),
            ("save", lambda patch: patch.save(out, verbose=False, check=False)),
        ]
    )


def main():
    path, rounds = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        for peer, run in [("py2max", py2max_round), ("MaxPyLang", maxpylang_round)]:
            for _ in range(rounds):
                with contextlib.redirect_stdout(io.StringIO()):
                    try:
                        told = {"peer": peer, "ms": run(path, os.path.join(folder, "out.maxpat"))}
                    except Exception as fault:  # The failure of a library is reported as its result.
                        told = {"peer": peer, "fault": f"{type(fault).__name__}: {fault}"}
                print(json.dumps(told), flush=True)


main()
