"""A line chart with two vertical axes as a PNG file, in plain Python: no library and no font file.

Everything, including letters, is a polyline. `Canvas.segment` colours each pixel by its distance from the line. This
gives smooth edges, any line width and rotated text. Letters have four columns and eight rows: row 2 is the baseline,
row 6 the top of an `x`, row 8 the top of a digit. There are no capitals.
"""

import math
import struct
import zlib
from itertools import pairwise

# Polylines. Each point is two digits: its column and its row.
GLYPHS = {
    "0": "12 32 43 47 38 18 07 03 12", "1": "07 28 22", "2": "07 18 38 47 46 02 42",
    "3": "07 18 38 47 46 35 15,35 44 43 32 12 03", "4": "32 38 04 44", "5": "48 08 05 35 44 43 32 12 03",
    "6": "47 38 18 07 03 12 32 43 44 35 15 04", "7": "08 48 12",
    "8": "15 06 07 18 38 47 46 35 15 04 03 12 32 43 44 35", "9": "03 12 32 43 47 38 18 07 06 15 35 46",
    ".": "22 23", ",": "23 11", "-": "05 45", "/": "02 48", ":": "22 23,25 26",
    "%": "02 48,08 18 17 07 08,33 43 42 32 33",
    "a": "46 42,45 36 16 05 03 12 32 43", "b": "08 02,05 16 36 45 43 32 12 03", "c": "45 36 16 05 03 12 32 43",
    "d": "48 42,45 36 16 05 03 12 32 43", "e": "04 44 45 36 16 05 03 12 32 43", "f": "38 28 17 12,06 36",
    "g": "46 41 30 10 01,45 36 16 05 03 12 32 43", "h": "08 02,05 16 36 45 42", "i": "22 26,27 28",
    "j": "26 21 10,27 28", "k": "08 02,36 04,15 32", "l": "28 22", "m": "02 06,05 16 25 22,25 36 45 42",
    "n": "02 06,05 16 36 45 42", "o": "16 36 45 43 32 12 03 05 16", "p": "06 00,05 16 36 45 43 32 12 03",
    "q": "46 40,45 36 16 05 03 12 32 43", "r": "12 16,15 26 36", "s": "45 36 16 05 14 34 43 32 12 03",
    "t": "18 13 22 32,06 36", "u": "06 03 12 32 43,46 42", "v": "06 22 46", "w": "06 12 25 32 46",
    "x": "06 42,46 02", "y": "06 22,46 10", "z": "06 46 02 42",
}  # fmt: skip

INK, RULE = (45, 49, 58), (226, 229, 234)
COLOURS = (37, 99, 205), (224, 104, 26)
SIZE = WIDTH, HEIGHT = 880, 520
LEFT, TOP, RIGHT, BOTTOM = 92, 64, 788, 440  # the plotting area


class Canvas:
    def __init__(self):
        self.pixels = bytearray(b"\xff" * (WIDTH * HEIGHT * 3))

    def segment(self, start, end, colour, width=1.0):
        (x0, y0), (x1, y1) = start, end
        pieces = max(1, math.ceil(math.dist(start, end) / 12))  # the bounding box of a short piece has few pixels
        if pieces > 1:
            at = [(x0 + (x1 - x0) * k / pieces, y0 + (y1 - y0) * k / pieces) for k in range(pieces + 1)]
            for piece in pairwise(at):
                self.segment(*piece, colour, width)
            return
        dx, dy, reach = x1 - x0, y1 - y0, width / 2 + 0.5
        length = dx * dx + dy * dy or 1.0
        for y in range(max(0, int(min(y0, y1) - reach)), min(HEIGHT, int(max(y0, y1) + reach) + 2)):
            for x in range(max(0, int(min(x0, x1) - reach)), min(WIDTH, int(max(x0, x1) + reach) + 2)):
                along = min(1.0, max(0.0, ((x - x0) * dx + (y - y0) * dy) / length))
                cover = reach - math.hypot(x - x0 - along * dx, y - y0 - along * dy)
                if cover > 0:
                    self.blend(x, y, colour, min(1.0, cover))

    def blend(self, x, y, colour, cover):
        at = (y * WIDTH + x) * 3
        for channel in range(3):
            # The darker value is kept, so that overlapping pieces of one line do not add up.
            value = round(255 + (colour[channel] - 255) * cover)
            self.pixels[at + channel] = min(self.pixels[at + channel], value)

    def line(self, points, colour, width=1.0):
        for pair in pairwise(points):
            self.segment(*pair, colour, width)

    def text(self, text, x, y, colour=INK, scale=1.7, align=0.0, turn=0):
        """`align`: 0 begins at x, 0.5 centres there, 1 ends there. `turn`: quarter turns anticlockwise."""
        strokes, pen = [], 0
        for letter in text.lower():
            glyph = [line.split() for line in GLYPHS.get(letter, "").split(",") if line]
            lines = [[(int(column), int(row)) for column, row in line] for line in glyph]
            columns = [column for line in lines for column, _ in line] or [0, 2]
            strokes += [[(pen + column - min(columns), row) for column, row in line] for line in lines]
            pen += max(columns) - min(columns) + 2
        shift, (cosine, sine) = (pen - 2) * align, [(1, 0), (0, 1), (-1, 0), (0, -1)][turn]
        for stroke in strokes:
            moved = [((column - shift) * scale, (5 - row) * scale) for column, row in stroke]
            self.line([(x + u * cosine + v * sine, y - u * sine + v * cosine) for u, v in moved], colour, 0.8 * scale)

    def png(self):
        def chunk(kind, content):
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

        rows = b"".join(b"\0" + self.pixels[y * WIDTH * 3 : (y + 1) * WIDTH * 3] for y in range(HEIGHT))
        header = struct.pack(">2I5B", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
        return (
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
        )


def ticks(low, high, about=6):
    """Round values that cover low..high, or a small range around them if both are equal."""
    if low == high:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    return [k * step for k in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def save(path, title, x_label, left, right):
    """Draw two curves, each (name, [(x, y)]), the first against the left axis and the second against the right one."""
    canvas = Canvas()
    canvas.text(title, (LEFT + RIGHT) / 2, 30, scale=2.4, align=0.5)
    canvas.text(x_label, (LEFT + RIGHT) / 2, BOTTOM + 54, align=0.5)
    marks = ticks(0, max([x for _, points in (left, right) for x, _ in points], default=1.0))

    def across(x):
        return LEFT + (RIGHT - LEFT) * x / marks[-1]

    for mark in marks:
        canvas.text(f"{mark:g}", across(mark), BOTTOM + 22, align=0.5)
        canvas.segment((across(mark), BOTTOM), (across(mark), BOTTOM + 5), INK)

    legend = (LEFT + RIGHT) / 2
    for side, (name, points), colour in zip((LEFT, RIGHT), (left, right), COLOURS, strict=True):
        values = [y for _, y in points if math.isfinite(y)] or [0.0, 1.0]
        scale = ticks(min(values), max(values)) if side == RIGHT else ticks(0, max(values))

        def down(y, scale=scale):
            return BOTTOM - (BOTTOM - TOP) * (y - scale[0]) / (scale[-1] - scale[0])

        outward = 1 if side == RIGHT else -1
        for mark in scale:
            if side == LEFT:
                canvas.segment((LEFT, down(mark)), (RIGHT, down(mark)), RULE)
            canvas.text(f"{mark:g}", side + 12 * outward, down(mark), colour, align=0.0 if outward > 0 else 1.0)
        canvas.text(name, side + 68 * outward, (TOP + BOTTOM) / 2, colour, align=0.5, turn=1)
        canvas.segment((side, TOP), (side, BOTTOM), INK)
        canvas.line([(across(x), down(y)) for x, y in points if math.isfinite(y)], colour, 2.4)
        row = (TOP + BOTTOM) / 2 + (14 if side == RIGHT else -14)
        canvas.segment((legend + 20, row), (legend + 52, row), colour, 2.4)
        canvas.text(name, legend + 64, row, align=0.0)
    canvas.segment((LEFT, BOTTOM), (RIGHT, BOTTOM), INK)
    with open(path, "wb") as file:
        file.write(canvas.png())
