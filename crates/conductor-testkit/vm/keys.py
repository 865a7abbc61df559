"""Reads the virtual keyboard of Conductor, as a desktop does. Prints `ready` when the device is open, then one line per key: down NAME or
up NAME, and `gone` when the device is removed."""
import time

import evdev
from evdev import ecodes as e


def find():
    while True:
        for path in evdev.list_devices():
            device = evdev.InputDevice(path)
            if device.name == "Conductor":
                return device
        time.sleep(0.05)


device = find()
print("ready", flush=True)
try:
    for event in device.read_loop():
        if event.type == e.EV_KEY and event.value in (0, 1):
            name = e.KEY.get(event.code) or e.BTN.get(event.code)
            name = name if isinstance(name, str) else name[0]
            print("down" if event.value else "up", name, flush=True)
except OSError:
    print("gone", flush=True)
