"""Rows of an object of any size: in memory while they are few, on disk when they are many."""

import os
import resource
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import StoreUnavailable
from headgate.stores.spill import Spill


def filled(chunks: list[bytes], limit: int) -> Spill:
    spill = Spill(kept_in_memory=limit)
    for chunk in chunks:
        spill.append(chunk)
    return spill


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20)), st.integers(0, 200), st.slices(8))
def test_a_spill_reads_like_the_list_it_is(chunks: list[bytes], limit: int, part: slice):
    """By position, from the end, in slices and in a loop, wherever the bytes are."""
    spill = filled(chunks, limit)
    assert len(spill) == len(chunks)
    assert list(spill) == chunks
    assert spill[part] == chunks[part]
    assert [spill[-n - 1] for n in range(len(chunks))] == chunks[::-1]
    with pytest.raises(IndexError):
        spill[len(chunks)]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1), st.integers(0, 100))
def test_reading_and_adding_take_turns(chunks: list[bytes], limit: int):
    """What was read in between does not end up in what is written."""
    spill = Spill(kept_in_memory=limit)
    for n, chunk in enumerate(chunks):
        spill.append(chunk)
        assert spill[n] == chunk
        assert spill[n // 2] == chunks[n // 2]
    assert list(spill) == chunks


def test_a_spill_can_be_begun_with_what_is_there():
    """And an empty one is empty."""
    assert list(Spill([b"a", b"b"])) == [b"a", b"b"]
    assert len(Spill()) == 0
    assert not Spill()


def test_little_stays_in_memory_and_much_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Up to its limit no file is opened; beyond it, one without a name that no crash leaves."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = len(os.listdir("/dev/fd"))
    spill = filled([b"x" * 50] * 2, limit=100)
    assert len(os.listdir("/dev/fd")) == before
    spill.append(b"y")
    assert len(os.listdir("/dev/fd")) == before + 1
    assert os.listdir(tmp_path) == []
    assert spill[0] + spill[2] == b"x" * 50 + b"y"
    del spill
    assert len(os.listdir("/dev/fd")) == before


def test_a_disk_that_refuses_is_waited_for_like_any_store():
    """No room for temporary files is an outage, not a fault of the entry."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StoreUnavailable, match="cannot keep rows in a temporary file") as error:
            list(filled([b"x" * 100_000] * 3, limit=0))
        assert error.value.hint
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_folder_for_temporary_files_that_is_gone_is_an_outage_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The message says where it was looked for."""
    gone = tmp_path / "gone"
    monkeypatch.setattr(tempfile, "tempdir", str(gone))
    with pytest.raises(StoreUnavailable, match=str(gone)):
        filled([b"x"], limit=0)
