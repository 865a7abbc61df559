"""A JACK client whose port is marked as hardware, like the port of a sound card.

Prints `ready`, then presses and releases note 62 for each line that it reads.
"""
import ctypes
import sys

jack = ctypes.CDLL("libjack.so.0")
jack.jack_client_open.restype = ctypes.c_void_p
jack.jack_port_register.restype = ctypes.c_void_p
jack.jack_port_get_buffer.restype = ctypes.c_void_p
jack.jack_port_get_buffer.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
jack.jack_midi_clear_buffer.argtypes = [ctypes.c_void_p]
jack.jack_midi_event_write.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
IS_OUTPUT, IS_PHYSICAL, NO_START = 2, 4, 1

client = jack.jack_client_open(b"card", NO_START, None)
port = jack.jack_port_register(
    ctypes.c_void_p(client), b"capture", b"8 bit raw midi", ctypes.c_ulong(IS_OUTPUT | IS_PHYSICAL), ctypes.c_ulong(0)
)
waiting = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
def process(frames, _):
    buffer = jack.jack_port_get_buffer(port, frames)
    jack.jack_midi_clear_buffer(buffer)
    while waiting:
        jack.jack_midi_event_write(buffer, 0, waiting.pop(0), 3)
    return 0


jack.jack_set_process_callback(ctypes.c_void_p(client), process, None)
jack.jack_activate(ctypes.c_void_p(client))
print("ready", flush=True)
for _ in sys.stdin:
    waiting.extend([bytes([0x90, 62, 100]), bytes([0x80, 62, 0])])
