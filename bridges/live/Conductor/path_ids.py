"""Parses path ids, and defines the errors that are sent to the daemon."""


class Refused(Exception):
    """An error reply with a code. `subject` is the id or argument that is wrong."""

    def __init__(self, code, message, subject=None):
        Exception.__init__(self, message)
        self.code = code
        self.message = message
        self.subject = subject

    def wire(self):
        return {"code": self.code, "message": self.message, "subject": self.subject}


def gone(subject):
    return Refused("STALE_REFERENCE", "%s does not exist in the Set" % subject, subject)


def wrong(subject, expected):
    return Refused("WRONG_TYPE", "%s is not %s" % (subject, expected), subject)


def parse(path):
    """Parses `track:0/clipslot:1/clip` to `[("track", 0), ("clipslot", 1), ("clip", None)]`."""
    if not isinstance(path, str) or not path:
        raise Refused("BAD_INPUT", "an id is missing")
    parts = []
    for segment in path.split("/"):
        kind, colon, number = segment.partition(":")
        if colon and (not number.isdigit() or (len(number) > 1 and number[0] == "0")):
            raise Refused("BAD_INPUT", "%r is not a path id" % path, path)
        parts.append((kind, int(number) if colon else None))
    return parts


def kinds(path):
    return [kind for kind, _ in parse(path)]


def at(items, index, subject):
    """Returns the object at an index. If there is none, the id is stale."""
    if index is None or index >= len(items):
        raise gone(subject)
    return items[index]
