"""Writes `Samples/Vox Take.wav`, the audio file of the demo Set: a sung line in C minor, made of sine waves. The file is our own work,
under the licences of this repository. Each run of `python3 make_sample.py` writes the same bytes.
"""

import math
import os
import struct
import wave

RATE = 8000
# Eight beats at the tempo of the Set.
SECONDS = 8 * 60 / 124
# Pitch in semitones from C4, and length in beats.
LINE = [(0, 1), (3, 1), (7, 1), (5, 0.5), (3, 0.5), (2, 1), (3, 1), (-1, 1), (0, 1)]
# The amplitude of each harmonic, similar to an open vowel.
HARMONICS = [1.0, 0.6, 0.35, 0.2, 0.08]


def voice():
    beat, phase = 60 / 124, 0.0
    for semitones, beats in LINE:
        count = round(beats * beat * RATE)
        for n in range(count):
            time = n / RATE
            vibrato = 1 + 0.006 * math.sin(2 * math.pi * 5.5 * time)
            phase += 261.6256 * 2 ** (semitones / 12) * vibrato / RATE
            tone = sum(share * math.sin(2 * math.pi * phase * (k + 1)) for k, share in enumerate(HARMONICS))
            level = min(1.0, n / 400, (count - n) / 600)
            yield 0.28 * level * tone


samples = list(voice())[: round(SECONDS * RATE)]
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "Samples")
with wave.open(os.path.join(folder, "Vox Take.wav"), "wb") as file:
    file.setnchannels(1)
    file.setsampwidth(2)
    file.setframerate(RATE)
    file.writeframes(b"".join(struct.pack("<h", round(it * 32767)) for it in samples))
