"""What readers see, what it replaced, and taking it back, as a command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Headgate, Zygote, copy_of, new_database, new_folder

from headgate.pg import Server

FIRST = "station,at,mm\noslo-1,2026-01-05T06:00:00Z,1.5\noslo-1,2026-01-05T12:00:00Z,0.5\n"
SECOND = "station,at,mm\noslo-1,2026-01-05T06:00:00Z,9\n"


@pytest.fixture(scope="module")
def shown(zygote: Zygote, open_folder: Path, server: Server) -> Headgate:
    """A pipeline with one file in two versions. Look, but change nothing."""
    folder = new_folder(open_folder, "publications")
    return _published(Headgate(zygote, folder, {"HEADGATE_DATABASE_URL": new_database(server)}))


@pytest.fixture
def rain(shown: Headgate, server: Server) -> Iterator[Headgate]:
    """The same, to be changed."""
    with copy_of(shown, server) as copy:
        yield copy


def _published(headgate: Headgate) -> Headgate:
    assert headgate("init").code == 0
    pipeline = headgate.folder / "rain.py"
    pipeline.write_text(pipeline.read_text().replace('"incoming/")', '"incoming/", settle=0)'))
    for file in (headgate.folder / "incoming").iterdir():
        file.unlink()
    for text in (FIRST, SECOND):
        (headgate.folder / "incoming" / "day.csv").write_text(text)
        _up(headgate)
    return headgate


def _up(headgate: Headgate) -> None:
    said = headgate("up", "rain.py", "--until-idle", "--workers", "1")
    assert said.code == 0, said.err


def test_a_publication_is_shown_compared_and_taken_back(rain: Headgate) -> None:
    """From the list to the revert and to its reason, and the sum follows."""
    (shown,) = rain("publication", "list", "--json").json["publications"]
    assert (shown["entry"], shown["version"]) == (2, 2)
    assert len(rain("publication", "list", "--all", "--json").json["publications"]) == 2

    said = rain("publication", "show", "incoming/day.csv", "--json").json
    assert said["publication"]["predecessor"] == 1
    assert [v["entry"] for v in said["versions"]] == [2, 1]
    assert "this one" in rain("publication", "show", "1").out

    delta = rain("publication", "diff", "2", "--json").json
    assert delta["rows"] == [{"table": "reading", "before": 2, "now": 1}]
    assert [r["name"] for r in delta["replaces"]] == ["data"]
    assert "version 1 to version 2" in rain("publication", "diff", "2", "--from", "1").out

    dry = rain("publication", "revert", "2", "--dry-run")
    assert (dry.code, "would go from version 2 back to version 1" in dry.out) == (0, True)
    assert len(rain("entry", "list", "--json").json["entries"]) == 2

    asked = rain("publication", "revert", "2", "--because", "broken sensor", "--json").json
    assert (asked["entry"], asked["restores"]) == (3, 1)
    _up(rain)
    why = rain("explain", "3").out
    assert "takes publication 2 back and brings back publication 1" in why
    assert "broken sensor" in why
    rows = rain("db", "psql", "-c", "SELECT sum(mm) FROM reading")
    assert "2.0" in rows.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("revert", "2"), "--because is missing"),
        (("revert", "1", "--because", "x"), "readers see version 2"),
        (("revert", "2", "--to", "7", "--because", "x"), "go back to a lower one"),
        (("show", "99"), "no publication is known by '99'"),
        (("diff", "2", "--from", "9"), "no version 9"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_way_out(
    shown: Headgate, args: tuple[str, ...], says: str
) -> None:
    """Exit 2, the thing is named, and nothing has changed."""
    said = shown("publication", *args)
    assert said.code == 2
    assert says in said.err
    assert "hint:" in said.err
    assert len(shown("entry", "list", "--json").json["entries"]) == 2
