"""`headgate manifest diff`: quick, exact, and never fooled by half a file."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Headgate


def rows(count: int, seed: int = 0) -> list[dict[str, object]]:
    """So many objects, in an order of their own."""
    found: list[dict[str, object]] = [
        {"uri": f"s3://bucket/raw/part-{n:07d}.csv", "etag": f"{n * 2654435761:032x}", "size": n}
        for n in range(count)
    ]
    if seed:
        random.Random(seed).shuffle(found)
    return found


def write_csv(path: Path, some: list[dict[str, object]]) -> str:
    lines = [",".join(map(str, row.values())) for row in some]
    path.write_text("\n".join(["uri,etag,size", *lines, ""]))
    return str(path)


def test_a_shuffled_manifest_in_another_form_is_equal(bare: Headgate) -> None:
    """Exit 0, one hash for both, nothing listed."""
    write_csv(bare.folder / "a.csv", rows(50))
    (bare.folder / "b.json").write_text(json.dumps({"files": rows(50, seed=1)}))
    said = bare("manifest", "diff", "a.csv", "b.json", "--json")
    assert said.code == 0, said.err
    assert said.json["before"]["hash"] == said.json["after"]["hash"]
    assert said.json["counts"] == {"added": 0, "changed": 0, "removed": 0, "unchanged": 50}
    assert "Nothing differs" in bare("manifest", "diff", "a.csv", "b.json").out


def test_what_differs_is_listed_and_the_exit_code_says_so(bare: Headgate) -> None:
    """Exit 1, like diff; programs get all of it, people the first twenty."""
    before, after = rows(100), rows(130, seed=2)
    after = [row for row in after if row["uri"] != before[3]["uri"]]
    for row in after:
        if row["uri"] == before[5]["uri"]:
            row["etag"] = "new"
    write_csv(bare.folder / "a.csv", before)
    (bare.folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in after))
    said = bare("manifest", "diff", "a.csv", "b.jsonl", "--json")
    assert said.code == 1, said.err
    found = said.json
    assert found["counts"] == {"added": 30, "changed": 1, "removed": 1, "unchanged": 98}
    assert len(found["added"]) == 30
    assert found["removed"] == [{"uri": before[3]["uri"], "version": before[3]["etag"], "size": 3}]
    assert found["changed"] == [
        {
            "uri": before[5]["uri"],
            "before": {"version": before[5]["etag"], "size": 5},
            "after": {"version": "new", "size": 5},
        }
    ]
    words = bare("manifest", "diff", "a.csv", "b.jsonl")
    assert words.code == 1
    assert "added: 30" in words.out
    assert "and 10 more" in words.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ('[{"uri": "a"}', "ends"),
        ("uri\na", "line break"),
        ('[{"uri": "a", "etag": "1"}, {"uri": "a", "etag": "2"}]', "items 1 and 2"),
    ],
)
def test_half_a_manifest_is_trouble_not_a_difference(bare: Headgate, text: str, said: str) -> None:
    """Exit 2 with the place; whatever is in it is not compared."""
    write_csv(bare.folder / "a.csv", rows(3))
    (bare.folder / "b").write_text(text)
    for pair in (("a.csv", "b"), ("b", "a.csv")):
        done = bare("manifest", "diff", *pair)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        assert "b: it is no complete manifest" in done.err


def test_a_manifest_that_is_not_there_is_trouble(bare: Headgate) -> None:
    """Exit 2, and its name."""
    write_csv(bare.folder / "a.csv", rows(3))
    done = bare("manifest", "diff", "a.csv", "nowhere.csv")
    assert done.code == 2
    assert "nowhere.csv" in done.err


def test_a_large_manifest_that_is_broken_is_named_too(bare: Headgate) -> None:
    """Large ones are read by a process beside; its complaint arrives whole."""
    some = rows(120_000)
    write_csv(bare.folder / "b.csv", some)
    write_csv(bare.folder / "a.csv", [*some, {**some[7], "etag": "other"}])
    done = bare("manifest", "diff", "a.csv", "b.csv")
    assert (done.code, done.out) == (2, "")
    assert "a.csv: it is no complete manifest: lines 9 and 120,002 name" in done.err


@pytest.mark.skipif(not Path("/proc").exists(), reason="there is no /proc to ask")
def test_large_manifests_take_little_time_and_little_memory(tmp_path: Path) -> None:
    """200,000 rows in some seconds of processor time, of both processes, and 120 MB here.

    A million takes five times as long (bench: `python -m bench.manifests`).
    """
    some = rows(200_000)
    one = write_csv(tmp_path / "a.csv", some)
    other = write_csv(tmp_path / "b.csv", [*rows(200_000, seed=3)[:-1], {**some[0], "uri": "new"}])
    code = (
        "import resource, sys\n"
        "from headgate.cli.ending import run\n"
        "code = run(sys.argv[1:])\n"
        "both = [resource.getrusage(who) for who in (-1, 0)]\n"
        "held = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "print(sum(one.ru_utime for one in both), held[0].split()[1], file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "manifest", "diff", one, other, "--json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    counts = {"added": 1, "changed": 0, "removed": 1, "unchanged": 199_999}
    assert json.loads(done.stdout)["counts"] == counts
    seconds, kilobytes = map(float, done.stderr.split())
    assert seconds < 10
    assert kilobytes < 120_000
