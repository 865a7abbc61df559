import contextlib

import lom


class ControlSurface:
    song = property(lambda self: lom.song)
    application = property(lambda self: lom.app)

    def __init__(self, c_instance):
        self._queue = []

    def schedule_message(self, delay, callback, argument=None):
        self._queue.append((delay, callback))

    def show_message(self, text):
        pass

    @contextlib.contextmanager
    def component_guard(self):
        yield

    def disconnect(self):
        pass

    def pump(self):
        queue, self._queue = self._queue, []
        for delay, callback in queue:
            if delay <= 1:
                callback()
            else:
                self._queue.append((delay - 1, callback))
