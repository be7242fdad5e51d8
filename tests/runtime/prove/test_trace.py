"""Where two worlds part: the line that made the difference, not one that passed it on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.runtime.prove.trace import Divergence, first_difference

from .conftest import CLOCK, Seen, Watched

DEPENDS = """
    import asyncio, os, random, time
    from datetime import datetime
    from pathlib import Path

    for name in "bca":
        Path(name).touch()
    NAMES = ("anna", "bert", "carl", "dora", "emil", "fred", "gina", "hugo")
    seen = []
    count = 0

    def stamped(at):
        return f"at {at}"

    @p.transform
    def by_clock(obj):
        started = len(obj.text())
        day = datetime.now().date()  # by_clock
        name = f"{day}-{started}"
        return {f"{obj.name}-clock": name}

    @p.transform
    async def by_argument(obj):
        await asyncio.sleep(0)
        yield {f"{obj.name}-argument": stamped(time.time())}  # by_argument

    @p.transform
    def by_branch(obj):
        text = "a"
        if random.Random().randrange(1000) < 500:  # by_branch
            text += "b"
        else:
            text += "c"
        return {f"{obj.name}-branch": text}

    @p.transform
    def by_chance(obj):
        parts = [obj.name]
        parts.append(str(random.random()))  # by_chance
        yield {f"{obj.name}-chance": "".join(parts)}

    @p.transform
    def by_hash(obj):
        names = set(NAMES)
        text = ""
        for name in names:  # by_hash
            text += name
        yield {f"{obj.name}-hash": text}

    @p.transform
    def by_inner_hash(obj):
        names = set(NAMES)
        return {f"{obj.name}-inner": ",".join(n for n in names)}  # by_inner_hash

    @p.transform
    def by_listing(obj):
        every = sorted(os.listdir())
        first = [n for n in os.listdir() if n in every and len(n) == 1]  # by_listing
        return {f"{obj.name}-listing": str(first)}

    @p.transform
    def by_count(obj):
        global count
        count += 1  # by_count
        return {f"{obj.name}-count": str(count)}

    @p.transform
    def by_memory(obj):
        seen.append(obj.name)  # by_memory
        first = seen[0]
        return {f"{obj.name}-memory": first}

    @p.transform
    def by_nothing(obj):
        words = {w: len(w) for w in sorted(set(NAMES))}
        return {f"{obj.name}-nothing": str(words)}
"""
HANDLERS = (
    "by_clock", "by_argument", "by_branch", "by_chance", "by_hash", "by_inner_hash", "by_listing",
    "by_count", "by_memory", "by_nothing",
)  # fmt: skip


def _differences(left: Seen, right: Seen, folder: Path) -> dict[str, Divergence]:
    """What `first_difference` says of each handler by itself."""
    found: dict[str, Divergence] = {}
    for handler in HANDLERS:
        traces: list[Path] = []
        for n, seen in enumerate((left, right)):
            told = (seen.folder / "trace").read_text().splitlines(keepends=True)
            one = folder / f"{handler}-{n}"
            one.write_text("".join(line for line in told if json.loads(line)["handler"] == handler))
            traces.append(one)
        if (parted := first_difference(*traces)) is not None:
            assert parted.handler == handler
            found[handler] = parted
    return found


def test_the_line_that_made_the_difference_is_named(watched: Watched, tmp_path: Path) -> None:
    """For every cause: the reading, the draw, the loop over a set, the listing, what was kept."""
    calm = watched(DEPENDS, trace=True)
    assert calm.outcomes == ["finalized"]
    again = watched(DEPENDS, trace=True)
    assert _differences(calm, again, tmp_path) == {}

    # With this seed the branch goes the other way.
    other = {"clock": CLOCK + 1e5, "seed": 3, "hash_seed": 3, "listing": "reversed"}
    world = watched(DEPENDS, {"0": "0", "a": "a"}, trace=True, concurrency=1, **other)
    found = _differences(calm, world, tmp_path)
    assert found.keys() == set(HANDLERS) - {"by_nothing"}
    for handler, parted in found.items():
        assert (parted.file, parted.line) == ("p.py", calm.line(f"# {handler}")), parted
        assert parted.left != parted.right
        if handler != "by_branch":
            assert parted.name is not None, "the variable is named"


@pytest.mark.parametrize("cut", [True, False])
def test_a_trace_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path, cut: bool) -> None:
    """A kill in the middle of a write costs the last line, not the comparison."""

    def told(value: str) -> str:
        head = {"uri": "u", "handler": "h", "attempt": 1, "call": 1}
        return json.dumps(head | {"step": ["p.py", 3, "x = f()", [["x", value]]]}) + "\n"

    left, right = tmp_path / "left", tmp_path / "right"
    left.write_text(told("1"))
    right.write_text(told("2") + (told("3")[:40] if cut else ""))
    assert first_difference(left, right) == Divergence(
        "p.py", 3, "x = f()", "x", "1", "2", "h", "u"
    )
