"""A virtual game controller. Prints `ready` when the device exists, then executes the commands on stdin, one per line:
press NAME, release NAME (south, east), axis NAME VALUE (x, rz), unplug."""
import sys

from evdev import AbsInfo, UInput, ecodes as e

BUTTONS = {"south": e.BTN_SOUTH, "east": e.BTN_EAST}
AXES = {"x": e.ABS_X, "rz": e.ABS_RZ}
pad = UInput(
    {
        e.EV_KEY: [e.BTN_SOUTH, e.BTN_EAST, e.BTN_NORTH, e.BTN_WEST, e.BTN_TL, e.BTN_TR, e.BTN_SELECT, e.BTN_START,
                   e.BTN_MODE, e.BTN_THUMBL, e.BTN_THUMBR],
        e.EV_ABS: [(axis, AbsInfo(0, -32768, 32767, 16, 128, 0)) for axis in (e.ABS_X, e.ABS_Y, e.ABS_RX, e.ABS_RY)]
        + [(axis, AbsInfo(0, 0, 255, 0, 0, 0)) for axis in (e.ABS_Z, e.ABS_RZ)]
        + [(axis, AbsInfo(0, -1, 1, 0, 0, 0)) for axis in (e.ABS_HAT0X, e.ABS_HAT0Y)],
    },
    name="Microsoft X-Box 360 pad", vendor=0x045E, product=0x028E, version=0x110, bustype=3,
)
print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "unplug":
        pad.close()
        break
    if words[0] == "axis":
        pad.write(e.EV_ABS, AXES[words[1]], int(words[2]))
    else:
        pad.write(e.EV_KEY, BUTTONS[words[1]], 1 if words[0] == "press" else 0)
    pad.syn()
sys.stdin.read()
