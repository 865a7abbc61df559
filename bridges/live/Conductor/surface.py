"""The control surface. It serves the daemon's requests only in ticks of Live's main thread."""

import Live
from ableton.v2.control_surface import ControlSurface

from . import reads
from .door import PROTOCOL, Door
from .edits import EDITS, version
from .path_ids import Refused
from .watch import Watch

TICK_MS = 10
BUDGET_SECONDS = 0.008


class Conductor(ControlSurface):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self._timer = None
        self._open = True
        self._watch = Watch(self.song)
        self._door = Door(self._answer, self._greeting, self._note)
        timer = getattr(getattr(Live, "Base", None), "Timer", None)
        if timer is not None:
            self._timer = timer(callback=self._tick, interval=TICK_MS, repeat=True)
            self._timer.start()
        else:
            self.schedule_message(1, self._scheduled)
        self.show_message("Conductor is listening")

    def disconnect(self):
        self._open = False
        if self._timer is not None:
            self._timer.stop()
        self._watch.unhook()
        self._door.close()
        super().disconnect()

    def _note(self, text):
        self.log_message("Conductor: %s" % text)

    def log_message(self, text):
        try:
            super().log_message(text)
        except AttributeError:
            pass

    def _scheduled(self):
        self._tick()
        if self._open:
            self.schedule_message(1, self._scheduled)

    def _tick(self):
        if not self._open:
            return
        try:
            self._report_changes()
            self._door.tick(BUDGET_SECONDS)
        except Exception as fault:
            # Live switches off a script that raises here.
            self._note("%s: %s" % (type(fault).__name__, fault))

    def _report_changes(self):
        """Reports changes that were not made by the daemon."""
        changes, shifted = self._watch.collect()
        if shifted:
            changes = [("structure", "main")] + changes
        for what, subject in changes:
            self._door.send_event({"event": "changed", "what": what, "subject": subject, "epoch": self._watch.epoch})

    def _greeting(self):
        caps = ["insert_device"] if hasattr(Live.Track.Track, "insert_device") else []
        return {"ok": True, "result": {"protocol": PROTOCOL, "live": version(Live), "caps": caps}, "epoch": self._watch.epoch}

    def _answer(self, request):
        try:
            # Report changes that a person made before this request, so that they are not mistaken for its effects.
            self._report_changes()
            reply = self._run(request)
        except Refused as refused:
            reply = {"ok": False, "error": refused.wire()}
        except AttributeError as fault:
            message = "Live %s lacks an attribute that %r needs (%s)" % (version(Live), request.get("op"), fault)
            reply = {"ok": False, "error": {"code": "UNSUPPORTED", "message": message, "subject": None}}
        except (KeyError, TypeError, ValueError) as fault:
            message = "the script could not handle %r: %s: %s" % (request.get("op"), type(fault).__name__, fault)
            reply = {"ok": False, "error": {"code": "SDK_REJECTED", "message": message, "subject": None}}
        except Exception as fault:
            message = "Live refused %r: %s" % (request.get("op"), fault)
            reply = {"ok": False, "error": {"code": "SDK_REJECTED", "message": message, "subject": None}}
        reply["epoch"] = self._watch.epoch
        return reply

    def _run(self, request):
        op = request.get("op")
        if op in reads.OPS:
            try:
                return {"ok": True, "result": reads.OPS[op](self.song, request)}
            except RuntimeError as fault:
                raise Refused("WRONG_TYPE", str(fault))
        writes = {"apply": self._apply, "undo": self._step, "redo": self._step, "fire": self._fire, "transport": self._transport}
        if op not in writes:
            raise Refused("BAD_INPUT", "unknown operation: %r" % (op,), "op")
        expected = request.get("expectEpoch")
        if expected is not None and expected != self._watch.epoch:
            raise Refused("STALE_REFERENCE", "the Set is at epoch %d, not %s" % (self._watch.epoch, expected), "expectEpoch")
        return writes[op](request)

    def _ours(self, reply):
        """Discards the changes of our own write, so that they are not reported as changes by a person."""
        self._watch.collect()
        reply["result"]["fingerprint"] = reads.fingerprint(self.song)
        return reply

    def _apply(self, request):
        for path, expected in (request.get("expectMarks") or {}).items():
            if reads.mark(self.song, {"clipId": path})["mark"] != expected:
                raise Refused("STALE_REFERENCE", "the notes of %s were changed after they were read" % path, "expectRevision")
        done = []
        # End an undo step that another script left open: otherwise it would include our edits.
        self.song.end_undo_step()
        self.song.begin_undo_step()
        try:
            for edit in request["edits"]:
                make = EDITS.get(edit.get("edit"))
                if make is None:
                    raise Refused("BAD_INPUT", "unknown edit: %r" % (edit.get("edit"),), "edits")
                done.append(make(self.song, edit, Live))
        finally:
            self.song.end_undo_step()
            self._watch.collect()
        steps = int(any(it.shared for it in done)) + sum(it.apart for it in done)
        result = {
            "outcomes": [it.outcome for it in done],
            "changed": [path for it in done for path in it.changed],
            "warnings": [text for it in done for text in it.warnings],
            "marks": dict(pair for it in done for pair in it.marks.items()),
        }
        return self._ours({"ok": True, "result": result, "undoSteps": steps})

    def _step(self, request):
        undo = request["op"] == "undo"
        count = 0
        for _ in range(int(request.get("steps", 1))):
            if not (self.song.can_undo if undo else self.song.can_redo):
                break
            if undo:
                self.song.undo()
            else:
                self.song.redo()
            count += 1
        result = {"count": count, "canUndo": bool(self.song.can_undo), "canRedo": bool(self.song.can_redo)}
        return self._ours({"ok": True, "result": result})

    def _fire(self, request):
        reads.slot_or_scene(self.song, request["target"]).fire()
        return {"ok": True, "result": {}}

    def _transport(self, request):
        song, action = self.song, request["action"]
        if request.get("beat") is not None:
            song.current_song_time = float(request["beat"])
        actions = {
            "play": song.start_playing,
            "stop": song.stop_playing,
            "continue": song.continue_playing,
            "stop_clips": song.stop_all_clips,
            "record_on": lambda: setattr(song, "record_mode", True),
            "record_off": lambda: setattr(song, "record_mode", False),
        }
        if action not in actions:
            raise Refused("BAD_INPUT", "unknown action: %r" % (action,), "action")
        actions[action]()
        return {"ok": True, "result": reads.playing(song)}
