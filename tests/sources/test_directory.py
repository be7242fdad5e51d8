"""A folder as a source: what is picked up, when, and what never is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.sources.looking import found, look, now, one, remember
from tests.stores.disks import small_disk, without_rights

from headgate.errors import (
    ObjectChanged,
    PermissionDenied,
    PipelineError,
    Unavailable,
    UsageError,
)
from headgate.model.ports import Known
from headgate.sources import Directory


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path):
    """It is picked up once nobody has touched it for `settle`, and counted until then."""
    (tmp_path / "a.csv").write_bytes(b"1")
    source, start = Directory(tmp_path, settle="10s"), now()
    early = source.scan({}, start + timedelta(seconds=9))
    assert (early.changes, early.unsettled) == ([], 1)
    late = source.scan({}, start + timedelta(seconds=11))
    assert (len(late.changes), late.unsettled) == (1, 0)


def test_an_old_date_does_not_make_a_fresh_copy_finished(tmp_path: Path):
    """`cp -p` and rsync set an old mtime while they work: the time of the last touch counts too."""
    (tmp_path / "a.csv").write_bytes(b"1")
    os.utime(tmp_path / "a.csv", (1e9, 1e9))
    assert Directory(tmp_path, settle="10s").scan({}, now() + timedelta(seconds=5)).unsettled == 1


def test_a_known_file_that_grows_is_told_when_it_rests(tmp_path: Path):
    """Appending to a known file is one change, after it has settled, never a removal."""
    (tmp_path / "a.csv").write_bytes(b"1")
    source = Directory(tmp_path, settle="10s")
    known = remember(look(source))
    (tmp_path / "a.csv").write_bytes(b"12")
    busy = source.scan(known, now())
    assert (busy.changes, busy.unsettled) == ([], 1)
    (change,) = look(source, known)
    assert (change.kind, change.expected, change.size) == ("created", 1, 2)


def test_a_file_dated_in_the_future_settles_by_being_watched(tmp_path: Path):
    """A wrong clock keeps no file out: unchanged for `settle` between two scans is enough."""
    file = tmp_path / "a.csv"
    file.write_bytes(b"1")
    os.utime(file, (4e9, 4e9))
    source, start = Directory(tmp_path, settle="2s"), now()

    def count(at: float) -> int:
        return len(source.scan({}, start + timedelta(seconds=at)).changes)

    assert count(0) == 0
    assert count(1.9) == 0
    file.write_bytes(b"12")
    os.utime(file, (4e9, 4e9))
    assert count(2.1) == 0
    assert count(4.0) == 0
    assert count(4.1) == 1
    assert count(4.2) == 1


def test_a_date_beyond_all_calendars_does_not_stop_the_scan(tmp_path: Path):
    """A nonsensical mtime is one odd file, not the end of the source."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        (disk / "a.csv").write_bytes(b"1")
        os.utime(disk / "a.csv", (1e12, 1e12))
        assert len(look(Directory(disk, settle=0))) == 1


def test_hidden_and_unfinished_names_are_ignored(tmp_path: Path):
    """What uploads, editors and browsers leave half-done under other names is never picked up."""
    for name in (
        "good.csv", "sub/good.csv", ".hidden", "a.tmp", "a.part", "a.partial", "a.crdownload",
        "a.csv~", ".git/config", "sub/.cache/x.csv", "tmp", "part.csv",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert found(Directory(tmp_path)) == {"good.csv", "sub/good.csv", "tmp", "part.csv"}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**/*", {"a.csv", "b.json", "x/a.csv", "x/y/c.csv"}),
        ("*.csv", {"a.csv"}),
        ("**/*.csv", {"a.csv", "x/a.csv", "x/y/c.csv"}),
        ("x/*", {"x/a.csv"}),
        ("x/**", {"x/a.csv", "x/y/c.csv"}),
        ("**/y/?.csv", {"x/y/c.csv"}),
        ("[!b]*", {"a.csv"}),
        ("**/[bc].*", {"b.json", "x/y/c.csv"}),
    ],
)
def test_a_pattern_chooses_files(tmp_path: Path, pattern: str, names: set[str]):
    """`*` stays within a folder, `**` goes below."""
    for name in ("a.csv", "b.json", "x/a.csv", "x/y/c.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert found(Directory(tmp_path, pattern=pattern)) == names


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "a**b", "**.csv"])
def test_a_pattern_that_cannot_match_is_refused(tmp_path: Path, pattern: str):
    """A pattern that leaves the folder or means nothing is said when it is declared."""
    with pytest.raises(PipelineError, match="pattern"):
        Directory(tmp_path, pattern=pattern)


def test_another_pattern_deletes_nothing(tmp_path: Path):
    """After a deploy with a narrower pattern, files that are still there were not removed."""
    (tmp_path / "a.csv").write_bytes(b"x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.json").write_bytes(b"x")
    known = remember(look(Directory(tmp_path)))
    assert look(Directory(tmp_path, pattern="*.csv"), known) == []
    (tmp_path / "sub" / "b.json").unlink()
    (gone,) = look(Directory(tmp_path, pattern="*.csv"), known)
    assert gone.kind == "removed"


def test_a_file_replaced_by_a_folder_is_gone(tmp_path: Path):
    """What stands at its place is another thing: the file was removed."""
    (tmp_path / "a").write_bytes(b"1")
    source = Directory(tmp_path)
    known = remember(look(source))
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    assert [change.kind for change in look(source, known)] == ["removed"]


def test_a_file_moved_away_and_back_is_new_again(tmp_path: Path):
    """Its date, size and inode are those of before, but it was told as removed meanwhile."""
    (tmp_path / "a").write_bytes(b"1")
    source = Directory(tmp_path)
    (before,) = look(source)
    (back,) = look(source, {before.uri: Known(before.hint, 2, removed=True)})
    assert (back.kind, back.hint, back.expected) == ("created", before.hint, 2)


def test_a_subfolder_that_cannot_be_listed_stops_the_whole_scan(open_folder: Path):
    """One closed folder: nothing is told at all, rather than its files as deleted."""
    (open_folder / "sub").mkdir(mode=0o755)
    (open_folder / "sub" / "a.csv").write_bytes(b"1")
    (open_folder / "b.csv").write_bytes(b"1")
    source = Directory(open_folder)
    known = remember(look(source))
    (open_folder / "sub").chmod(0)
    with without_rights(), pytest.raises(Unavailable, match=r"/sub cannot be read: Permission"):
        look(source, known)
    (open_folder / "sub").chmod(0o755)
    assert look(source, known) == []


def test_an_unmounted_disk_deletes_nothing(tmp_path: Path):
    """The mount point is left behind, empty: that is an outage, and remounting ends it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.csv").write_bytes(b"1")
    source = Directory(tmp_path / "in")
    with small_disk(tmp_path / "in" / "disk", "1m") as disk:
        (disk / "a.csv").write_bytes(b"1")
        known = remember(look(source))
        assert len(known) == 2
    with pytest.raises(Unavailable, match="unmounted"):
        look(source, known)
    (tmp_path / "in" / "disk" / "a.csv").write_bytes(b"1")
    assert [change.kind for change in look(source, known)] == ["created"]


def test_a_folder_that_is_not_there_is_said_with_the_command_to_make_it(tmp_path: Path):
    """The first thing a newcomer gets wrong is answered with its absolute path and a command."""
    missing = tmp_path / "in coming"
    with pytest.raises(UsageError, match=f"{missing} is not there") as refused:
        Directory(missing).check()
    assert f"mkdir -p '{missing}'" in refused.value.hint
    with pytest.raises(Unavailable, match="nothing is taken for deleted"):
        look(Directory(missing))
    missing.write_bytes(b"a file")
    with pytest.raises(UsageError, match="is not a folder"):
        Directory(missing).check()


def test_a_file_that_changes_while_it_is_read_is_discarded(tmp_path: Path):
    """The reader is told after the last chunk, so that a mixture of two versions is never kept."""
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(3 << 20))
    source = Directory(tmp_path)
    for change_it in (
        lambda: file.write_bytes(b"x" * (3 << 20)),
        lambda: os.truncate(file, 1 << 20),
    ):
        chunks = iter(source.fetch(one(source)))
        next(chunks)
        change_it()
        with pytest.raises(ObjectChanged):
            list(chunks)


def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(tmp_path: Path):
    """A replacement by rename disturbs nobody: the old bytes are whole, the new are told next."""
    file = tmp_path / "a.bin"
    file.write_bytes(b"o" * (2 << 20))
    source = Directory(tmp_path)
    chunks = iter(source.fetch(one(source)))
    first = next(chunks)
    (tmp_path / "new.tmp").write_bytes(b"n")
    os.replace(tmp_path / "new.tmp", file)
    assert first + b"".join(chunks) == b"o" * (2 << 20)


def test_a_file_rewritten_after_it_was_told_must_settle_again(tmp_path: Path):
    """What lies there is another version, and fresh: it may be half there, so it is read later."""
    file = tmp_path / "a.csv"
    file.write_bytes(b"whole")
    patient, hasty = Directory(tmp_path, settle="1h"), Directory(tmp_path, settle=0)
    (change,) = patient.scan({}, now() + timedelta(hours=2)).changes
    envelope = patient.envelope(change, 1, now())
    assert list(patient.fetch(envelope)) == [b"whole"]
    file.write_bytes(b"ha")
    with pytest.raises(ObjectChanged, match="being written"):
        list(patient.fetch(envelope))
    assert list(hasty.fetch(envelope)) == [b"ha"]


def test_a_file_we_may_not_read_is_a_matter_of_permission(open_folder: Path):
    """It is told, and reading it ends in quarantine with the class `permission`."""
    (open_folder / "a.csv").write_bytes(b"1")
    (open_folder / "a.csv").chmod(0)
    source = Directory(open_folder)
    with without_rights():
        envelope = one(source)
        with pytest.raises(PermissionDenied):
            list(source.fetch(envelope))


def test_an_envelope_carries_what_is_known_of_the_file(tmp_path: Path):
    """Time, size, type and the weak hint; a removal has only the time we noticed it."""
    file = tmp_path / "2024 01.csv.gz"
    file.write_bytes(b"123")
    os.utime(file, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    source, received = Directory(tmp_path), now()
    (change,) = look(source)
    created = source.envelope(change, 7, received)
    assert created.event_time == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert (created.provider, created.detector, created.source) == (
        "file",
        "manifest",
        "file:created",
    )
    assert (created.clock, created.strength, created.size) == ("object", "weak", 3)
    assert created.content_type == "application/gzip"
    assert created.event_id == f"7@{file.as_uri()}"
    assert created.sequence == "~0000000000000000007"
    assert created.version_hint == f"1700000000123456789-3-{file.stat().st_ino}"
    file.unlink()
    (change,) = look(source, {file.as_uri(): Known(change.hint, 7)})
    removed = source.envelope(change, 8, received)
    assert (removed.source, removed.clock, removed.event_time) == (
        "file:removed",
        "received",
        received,
    )


def test_changes_come_in_the_order_the_files_were_written(tmp_path: Path):
    """Whoever numbers them in this order numbers them by age."""
    for number in (3, 1, 2):
        (tmp_path / f"{9 - number}.csv").write_bytes(b"x")
        os.utime(tmp_path / f"{9 - number}.csv", (1e9 + number, 1e9 + number))
    changes = look(Directory(tmp_path))
    assert [change.uri[-5:] for change in changes] == ["8.csv", "7.csv", "6.csv"]


def test_a_large_folder_is_scanned_in_moments(tmp_path: Path):
    """Looking every second stays cheap. The bound is loose, for machines that are busy."""
    for folder in range(20):
        (tmp_path / f"{folder}").mkdir()
        at = os.open(tmp_path / f"{folder}", os.O_RDONLY)
        for number in range(1000):
            os.close(os.open(f"{number}.csv", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        os.close(at)
    source = Directory(tmp_path)
    known = remember(look(source))
    assert len(known) == 20_000
    start = datetime.now()
    assert look(source, known) == []
    assert (datetime.now() - start).total_seconds() < 2
