"""Draws line charts as SVG, with only the standard library."""

import math
from xml.sax.saxutils import escape

COLOURS = ["#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#65a30d", "#be185d"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 64, 16, 36, 72


def number(value):
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:.3g}"


def scale(values, log, whole=False):
    """`whole` extends a logarithmic axis to whole powers of ten, so that a flat line looks flat."""
    low, high = min(values), max(values)
    if log:
        low, high = math.log10(low), math.log10(high)
        if whole:
            low, high = math.floor(low), math.ceil(high)
    else:
        low = min(0, low)
    span = (high - low) or 1
    return lambda value: ((math.log10(value) if log else value) - low) / span, low, low + span


def ticks(low, high, log):
    if log:
        return [10**power for power in range(math.floor(low), math.ceil(high) + 1) if low - 1e-9 <= power <= high + 1e-9]
    step = 10 ** math.floor(math.log10((high - low) or 1))
    step = next(step * it for it in (0.1, 0.2, 0.5, 1, 2) if (high - low) / (step * it) <= 6)
    first = math.ceil(low / step)
    return [step * it for it in range(first, math.floor(high / step + 1e-9) + 1)]


def chart(title, x_name, y_name, lines, log_x=False, log_y=False):
    """`lines` is a list of (name, [(x, y), ...])."""
    points = [point for _, line in lines for point in line]
    x_at, x_low, x_high = scale([x for x, _ in points], log_x)
    y_at, y_low, y_high = scale([y for _, y in points], log_y, whole=True)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    px = lambda x: LEFT + x_at(x) * wide
    py = lambda y: TOP + (1 - y_at(y)) * high
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for x in ticks(x_low, x_high, log_x):
        out.append(f'<line x1="{px(x):.1f}" y1="{TOP}" x2="{px(x):.1f}" y2="{TOP + high}" stroke="#e5e7eb"/>')
        out.append(f'<text x="{px(x):.1f}" y="{TOP + high + 16}" text-anchor="middle">{number(x)}</text>')
    for y in ticks(y_low, y_high, log_y):
        out.append(f'<line x1="{LEFT}" y1="{py(y):.1f}" x2="{LEFT + wide}" y2="{py(y):.1f}" stroke="#e5e7eb"/>')
        out.append(f'<text x="{LEFT - 6}" y="{py(y) + 4:.1f}" text-anchor="end">{number(y)}</text>')
    out.append(f'<text x="{LEFT + wide / 2}" y="{TOP + high + 34}" text-anchor="middle">{escape(x_name)}</text>')
    out.append(f'<text transform="translate(14 {TOP + high / 2}) rotate(-90)" text-anchor="middle">{escape(y_name)}</text>')
    at = LEFT
    for index, (name, line) in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.extend(f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in line)
        out.append(f'<rect x="{at}" y="{HEIGHT - 24}" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{at + 14}" y="{HEIGHT - 15}">{escape(name)}</text>')
        at += 30 + 7 * len(name)
    out.append("</svg>")
    return "\n".join(out) + "\n"
