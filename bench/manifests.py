"""How long `headgate manifest diff` takes for a million rows, and how much memory:

    python -m bench.manifests [ROWS]

The target is 10 s and 500 MB. The second manifest is shuffled and differs in seven rows.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

Rows = list[tuple[str, str, int]]
FORMS = ("csv", "json", "jsonl")


def made(count: int) -> tuple[Rows, Rows]:
    """Two lists of objects."""
    dice = random.Random(1)
    before = [
        (f"s3://bucket/raw/2024/part-{n:08d}.csv", f"{dice.getrandbits(128):032x}", n)
        for n in range(count)
    ]
    after = list(before)
    dice.shuffle(after)
    after[:7] = [(uri, "changed", size) for uri, _, size in after[:7]]
    return before, after


def lines(form: str, rows: Rows) -> Iterator[str]:
    """A manifest, line by line."""
    if form == "csv":
        yield "uri,etag,size\n"
        yield from (f"{uri},{etag},{size}\n" for uri, etag, size in rows)
        return
    items = (json.dumps({"uri": u, "etag": e, "size": s}) for u, e, s in rows)
    if form == "jsonl":
        yield from (f"{item}\n" for item in items)
        return
    yield f"[{next(items)}"
    yield from (f",\n{item}" for item in items)
    yield "]\n"


def main(count: int) -> None:
    before, after = made(count)
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            paths = [Path(folder, f"{name}.{form}") for name in "ab"]
            for path, rows in zip(paths, (before, after), strict=True):
                with path.open("w") as file:
                    file.writelines(lines(form, rows))
        del before, after
        for form in FORMS:
            paths = [f"{folder}/{name}.{form}" for name in "ab"]
            began, used = perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            command = [sys.executable, "-m", "headgate", "manifest", "diff", *paths, "--json"]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            took, now = perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            counts = json.loads(done.stdout)["counts"]
            spent, held = now.ru_utime - used, now.ru_maxrss / 1024
            print(f"{form:6} {count:,} rows: {took:.1f} s ({spent:.1f} s of processors), {counts}")
            print(f"       the larger of its two processes held {held:.0f} MB at most")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
