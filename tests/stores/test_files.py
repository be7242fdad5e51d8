"""What a folder on a real disk adds: power cuts, full disks, rights, and damage."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest
from tests.stores.disks import Machine, small_disk, without_rights

from headgate.errors import ConfigError, StoreUnavailable, UsageError
from headgate.stores import FileStore, open_store
from headgate.testing.stores import content, keep

# Dies the moment the object has its name: its folder was not synced yet.
DIE_AFTER_RENAME = """
import os, signal, sys
from headgate.stores import FileStore
rename = os.rename
def rename_and_die(*names):
    rename(*names)
    os.kill(os.getpid(), signal.SIGKILL)
os.rename = rename_and_die
store = FileStore(sys.argv[1])
spool = store.spool()
spool.write(b"rain" * 50_000)
store.keep(spool)
"""

# One file may have 1 MiB: beyond it the disk refuses, as a full one would.
REFUSED_AT_1_MIB = """
import resource, sys
from headgate.errors import StoreUnavailable
from headgate.stores import FileStore
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
store = FileStore(sys.argv[1])
spool = store.spool()
try:
    for _ in range(4):
        spool.write(bytes(400_000))
except StoreUnavailable as error:
    print(error.upstream, spool.path.exists(), list(store.digests()))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.shut_down()


def run(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)


def test_what_was_kept_survives_a_power_cut(machine: Machine):
    """The plug is pulled right after `keep`: objects, named files and new folders are there."""
    store = FileStore(machine.disk / "srv" / "lake")
    kept = [keep(store, b"%d" % n * 3000) for n in range(20)]
    store.project({"ledger/anchor.json": b"{}"})
    unfinished = store.spool()
    unfinished.write(b"half")
    unfinished.discard()
    machine.lose_power()
    assert all(map(store.check, kept))
    assert set(store.digests()) == set(kept)
    assert store.read("ledger/anchor.json") == b"{}"


@pytest.mark.parametrize("files", [3, 300])
def test_many_files_survive_a_power_cut(machine: Machine, files: int):
    """The plug is pulled right after a page was written, or removed: it is as it was said to be."""
    store = FileStore(machine.disk / "lake")
    store.project({"stac/catalog.json": b"old", "prov/old": b"", "prov/older": b""})
    page = {f"stac/soil/{n % 5}/{n}.json": b"%d" % n * 500 for n in range(files)}
    page |= {f"runs/{n}/{name}": b"{}" for n in range(files // 3) for name in "ab"}
    store.project(page | {"stac/catalog.json": b"new"})
    store.remove(["prov/old"])
    machine.lose_power()
    assert {name: store.read(name) for name in page} == page
    assert store.read("stac/catalog.json") == b"new"
    assert list(store.names("prov")) == ["prov/older"]


def test_a_page_that_does_not_fit_changes_nothing(tmp_path: Path):
    """The disk is full: the old files stay, and what was written aside is gone again."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        store = FileStore(disk / "lake")
        store.project({"stac/0.json": b"old"})
        with pytest.raises(StoreUnavailable, match="write 40 files: No space") as refused:
            store.project({f"stac/{n}.json": bytes(100_000) for n in range(40)})
        assert "space" in refused.value.hint
        assert list(store.names("stac")) == ["stac/0.json"]
        assert store.read("stac/0.json") == b"old"
        assert os.listdir(disk / "lake" / "staging" / "tmp") == []


def test_a_folder_that_somebody_makes_meanwhile_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two write into one new folder: both their files are in it."""
    store, rename = FileStore(tmp_path), os.rename

    def beaten_to_it(source: str, target: str) -> None:
        monkeypatch.setattr(os, "rename", rename)
        FileStore(tmp_path).project({"runs/1/a": b"theirs", "runs/1/b": b"theirs"})
        rename(source, target)

    monkeypatch.setattr(os, "rename", beaten_to_it)
    store.project({"runs/1/b": b"ours", "runs/1/c": b"ours"})
    found = {name: store.read(f"runs/1/{name}") for name in "abc"}
    assert found == {"a": b"theirs", "b": b"ours", "c": b"ours"}


def test_a_worker_that_died_before_the_folder_was_synced_is_covered(machine: Machine):
    """It died between rename and fsync. Who keeps the same bytes next makes them durable."""
    store, data = FileStore(machine.disk / "lake"), b"rain" * 50_000
    digest = sha256(data).digest()
    # With a neighbour the folders above are durable: all that is missing is the object's name.
    neighbour = next(n for n in map(str, count()) if sha256(n.encode()).digest()[0] == digest[0])
    keep(store, neighbour.encode())
    assert run(DIE_AFTER_RENAME, store.root).returncode == -signal.SIGKILL
    assert store.check(digest)
    assert keep(store, data) == digest
    machine.lose_power()
    assert store.check(digest)


def test_a_deleted_object_stays_deleted_after_a_power_cut(machine: Machine):
    """Deleted is deleted: a crash does not bring the bytes back."""
    store = FileStore(machine.disk / "lake")
    digest = keep(store, b"personal")
    store.delete(digest)
    machine.lose_power()
    assert not store.has(digest)


def test_a_full_disk_is_an_outage_and_shows_nothing_partial(tmp_path: Path):
    """The disk fills up midway: the entry waits, no part is visible, and freed space is enough."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        store = FileStore(disk / "lake")
        store.project({"ledger/anchor.json": b"old"})
        first = keep(store, b"a" * (2 << 20))
        spool = store.spool()
        spool.write(b"b" * (1 << 20))
        with pytest.raises(StoreUnavailable, match="No space left") as refused:
            spool.write(b"b" * (2 << 20))
        assert refused.value.upstream == store.uri
        assert "space" in refused.value.hint
        assert list(store.digests()) == [first]
        assert not spool.path.exists()
        with pytest.raises(UsageError):
            store.keep(spool)
        with pytest.raises(StoreUnavailable):
            store.project({"ledger/anchor.json": b"c" * (3 << 20)})
        assert store.read("ledger/anchor.json") == b"old"
        assert keep(store, b"b" * (1 << 20)) in store.digests()


def test_a_limit_on_file_sizes_is_an_outage_too(tmp_path: Path):
    """Whatever makes the disk refuse, the spool's space is freed and nothing is visible."""
    store = FileStore(tmp_path / "lake")
    assert run(REFUSED_AT_1_MIB, str(tmp_path / "lake")).stdout == f"{store.uri} False []\n"


def test_a_disk_that_became_read_only_is_an_outage(tmp_path: Path):
    """What is there can be read; what cannot be written says how to help."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        store = FileStore(disk)
        digest = keep(store, b"rain")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert content(store, digest) == b"rain"
        with pytest.raises(StoreUnavailable, match="Read-only") as refused:
            keep(store, b"more")
        assert "writable" in refused.value.hint


def test_a_store_without_rights_says_whose_they_are():
    """A folder of another user: not a crash, but an outage with a hint."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        with without_rights(), pytest.raises(StoreUnavailable, match="Permission") as refused:
            keep(FileStore(folder), b"x")
        assert "write access" in refused.value.hint
        os.chmod(folder, 0o755)


def test_nobody_else_may_write_and_objects_are_read_only(tmp_path: Path):
    """Objects cannot be written to, spools are private, nothing is open to the world."""
    umask = os.umask(0)
    try:
        store = FileStore(tmp_path / "lake")
        spool = store.spool()
        assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600
        spool.write(b"x")
        store.keep(spool)
        store.project({"ledger/anchor.json": b"{}"})
    finally:
        os.umask(umask)
    assert stat.S_IMODE(store.path(spool.digest).stat().st_mode) == 0o440
    for path in (tmp_path / "lake").rglob("*"):
        assert not path.stat().st_mode & stat.S_IWOTH


def test_damage_is_found_and_a_truncated_object_is_replaced(tmp_path: Path):
    """A flipped bit fails the check; a wrong length is healed by keeping the bytes again."""
    store = FileStore(tmp_path)
    digest = keep(store, b"rainfall")
    store.path(digest).chmod(0o640)
    store.path(digest).write_bytes(b"raInfall")
    assert not store.check(digest)
    store.path(digest).write_bytes(b"rain")
    assert keep(store, b"rainfall") == digest
    assert store.check(digest)


def test_an_object_that_is_there_is_not_written_again(tmp_path: Path):
    """Keeping known bytes leaves the file that readers have open."""
    store = FileStore(tmp_path)
    digest = keep(store, b"rain")
    inode = store.path(digest).stat().st_ino
    keep(store, b"rain")
    assert store.path(digest).stat().st_ino == inode


def test_a_tidied_folder_is_made_again(tmp_path: Path):
    """Somebody removed the empty folders meanwhile: the next object is kept all the same."""
    store = FileStore(tmp_path / "lake")
    digest = keep(store, b"rain")
    store.delete(digest)
    for folder in ("sha256/" + digest.hex()[:2], "sha256", "tmp", ""):
        (tmp_path / "lake" / "staging" / folder).rmdir()
    assert keep(store, b"rain") == digest
    assert store.check(digest)


def test_foreign_files_in_the_store_are_left_alone(tmp_path: Path):
    """A README, a lost+found or a folder among the spools disturbs neither listing nor sweep."""
    store = FileStore(tmp_path)
    digest = keep(store, b"rain")
    objects = tmp_path / "staging" / "sha256"
    (objects / "README").write_text("hands off")
    (objects / digest.hex()[:2] / "note").write_text("hands off")
    (tmp_path / "staging" / "tmp" / "lost+found").mkdir()
    assert list(store.digests()) == [digest]
    assert store.sweep(0) == 0


def test_a_spool_goes_to_its_own_store_only(tmp_path: Path):
    """Two stores do not mix: a spool of one is refused by the other."""
    spool = FileStore(tmp_path / "a").spool()
    with pytest.raises(UsageError, match="spools of its own"):
        FileStore(tmp_path / "b").keep(spool)
    spool.discard()


def test_objects_cannot_be_replaced_by_name(tmp_path: Path):
    """Named files live beside `staging`, never in it."""
    with pytest.raises(UsageError):
        FileStore(tmp_path).project({"staging/sha256/x": b""})


@pytest.mark.parametrize("name", ["lake", "a lake", "l#ke?", "s%20e", "Wörld", "new\nline"])
def test_a_store_is_found_again_by_its_uri(tmp_path: Path, name: str):
    """`store.uri` opens the same store, whatever its folder is called."""
    digest = keep(open_store(str(tmp_path / name)), b"x")
    again = open_store(open_store(str(tmp_path / name)).uri)
    assert again.has(digest)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("uri", ["ftp://h/lake", "https://h/x", "S4://b"])
def test_a_store_of_an_unknown_kind_is_refused_by_name(uri: str):
    """There are folders and buckets; anything else is named in the refusal."""
    with pytest.raises(ConfigError, match=uri.partition(":")[0]):
        open_store(uri)


@pytest.mark.parametrize("uri", ["", "file://host/x", "file://", "file:///x?y", "file:///x#y"])
def test_a_store_that_names_no_folder_is_refused(uri: str):
    """A uri with two slashes too few or an unescaped ? is a question, not a guess."""
    with pytest.raises(ConfigError):
        open_store(uri)
