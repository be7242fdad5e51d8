"""A terminal's frames as one SVG: no scripts, no fonts from elsewhere, readable on any page.

Lines that stay are drawn once. Lines that change are drawn once for each of their looks and take
turns by CSS; where CSS does not move, the last frame is what is seen.
"""

from __future__ import annotations

from html import escape

from record_screen import Line, Style

WIDE, HIGH, PAD = 8.0, 18, 16
BAR = 30
FRAME_SECONDS, REST_SECONDS = 0.16, 6.0
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# Chosen for contrast on the dark ground, which the picture brings along.
INK = {
    "": "#d6dbe1", "black": "#6b7480", "red": "#ff7b72", "green": "#56d364", "yellow": "#e3b341",
    "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#4cc9d8", "white": "#f0f3f6",
}  # fmt: skip
DIM = "#8b95a1"


def drawn(frames: list[list[Line]], *, columns: int, title: str) -> str:
    """The picture. With one frame nothing moves."""
    frames = _without_repeats(frames)
    height = max(len(frame) for frame in frames)
    width, tall = int(columns * WIDE + 2 * PAD), height * HIGH + 2 * PAD + BAR - 8
    turns: dict[str, str] = {}
    body = [_row(frames, n, turns) for n in range(height)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {tall}"'
            f' width="{width}" height="{tall}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{_style(turns)}</style>",
            f'<rect x=".5" y=".5" width="{width - 1}" height="{tall - 1}" rx="8" fill="#12171d"'
            ' stroke="#4a5460"/>',
            *(
                f'<circle cx="{PAD + 4 + 16 * n}" cy="17" r="4.5" fill="#3a434e"/>'
                for n in range(3)
            ),
            f'<text class="d" x="{width / 2:g}" y="21" text-anchor="middle">{escape(title)}</text>',
            *(line for line in body if line),
            "</svg>",
            "",
        ]
    )


def _without_repeats(frames: list[list[Line]]) -> list[list[Line]]:
    return [f for n, f in enumerate(frames) if n == 0 or f != frames[n - 1]]


def _row(frames: list[list[Line]], n: int, turns: dict[str, str]) -> str:
    looks = [frame[n] if n < len(frame) else Line(()) for frame in frames]
    if all(look == looks[0] for look in looks):
        return _text(looks[0], n)
    # Each look from the frame it begins at to the one before the next.
    starts = [f for f, look in enumerate(looks) if f == 0 or look != looks[f - 1]]
    parts: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(looks)], strict=True):
        if looks[start].runs:
            turns[f"k{start}_{end}"] = _turn(start, end, len(looks))
            parts.append(f'<g class="k{start}_{end}">{_text(looks[start], n)}</g>')
    return "\n".join(parts)


def _turn(start: int, end: int, frames: int) -> str:
    """Seen from one frame to another. In percent of the whole, which ends with a rest."""
    whole = (frames - 1) * FRAME_SECONDS + REST_SECONDS
    name, last = f"k{start}_{end}", end == frames
    shows = [] if start == 0 else ["0%{visibility:hidden}"]
    shows.append(f"{100 * start * FRAME_SECONDS / whole:.2f}%{{visibility:visible}}")
    if not last:
        shows.append(f"{100 * end * FRAME_SECONDS / whole:.2f}%{{visibility:hidden}}")
    hidden = "" if last else "visibility:hidden;"
    return (
        f"@keyframes {name}{{{''.join(shows)}}}"
        f".{name}{{{hidden}animation:{name} {whole:.2f}s step-end infinite}}"
    )


def _text(line: Line, n: int) -> str:
    y = PAD + BAR + n * HIGH + 4
    return "".join(
        f'<text x="{PAD + column * WIDE:g}" y="{y}" textLength="{len(text) * WIDE:g}"'
        f' lengthAdjust="spacingAndGlyphs"{_class(style)}>{escape(text, quote=False)}</text>'
        for column, text, style in line.runs
    )


def _class(style: Style) -> str:
    names = [style.colour[:3]] if style.colour else []
    names += ["b"] if style.bold else []
    names += ["d"] if style.dim else []
    return f' class="{" ".join(names)}"' if names else ""


def _style(turns: dict[str, str]) -> str:
    still = "@media (prefers-reduced-motion:reduce){g{animation:none!important}}"
    inks = "".join(f".{name[:3]}{{fill:{ink}}}" for name, ink in INK.items() if name)
    return (
        f"text{{font:13.2px {FONT};fill:{INK['']};white-space:pre}}"
        f"{inks}.b{{font-weight:700}}.d{{fill:{DIM}}}"
        f"{''.join(turns.values())}{still if turns else ''}"
    )
