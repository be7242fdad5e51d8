"""Whatever bytes a name is made of, its uri leads back to the file."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.sources import Directory

NOW = datetime.now(UTC) + timedelta(days=1)

names = st.one_of(
    st.binary(min_size=1, max_size=60),
    st.text(min_size=1, max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [b"a b", b"a#b?c", b"%41", b"new\nline", "Zürich".encode(), b"\xff\xfe", b"a;b"]
    ),
).filter(lambda name: b"/" not in name and b"\0" not in name and not name.startswith(b"."))
finished = names.filter(
    lambda name: not name.endswith((b".tmp", b".part", b".partial", b".crdownload", b"~"))
)


@settings(max_examples=150, deadline=None)
@given(folder=names, name=finished)
def test_a_name_of_any_bytes_can_be_told_and_read(folder: bytes, name: bytes):
    """Spaces, #, ?, newlines, percent signs, other encodings: told and read all the same."""
    root = tempfile.mkdtemp()
    try:
        inner = os.path.join(os.fsencode(root), folder)
        os.mkdir(inner)
        with open(os.path.join(inner, name), "wb") as file:
            file.write(name)
        source = Directory(root)
        (change,) = source.scan({}, NOW).changes
        assert unquote_to_bytes(change.uri) == b"file://" + os.path.join(inner, name)
        assert change.uri.isascii()
        assert change.uri.isprintable()
        assert source.owns(change.uri)
        envelope = source.envelope(change, 1, NOW)
        assert b"".join(source.fetch(envelope)) == name
        assert Directory(os.fsdecode(inner)).owns(change.uri)
    finally:
        shutil.rmtree(os.fsencode(root))


def test_a_name_too_long_for_an_envelope_is_logged_and_costs_no_neighbour(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """A uri has at most 2000 characters; a longer one is refused aloud, once."""
    folder = tmp_path
    for _ in range(6):
        folder = folder / ("ü" * 120)
        folder.mkdir()
    (folder / "deep.csv").write_bytes(b"1")
    (tmp_path / "near.csv").write_bytes(b"1")
    source = Directory(tmp_path)
    with caplog.at_level(logging.WARNING):
        (change,) = source.scan({}, NOW).changes
        assert source.scan({}, NOW).changes == [change]
    assert change.uri.endswith("/near.csv")
    assert "more than 2000 characters" in caplog.text
    assert len(caplog.messages) == 1


def test_an_event_id_stays_short_and_distinct(tmp_path: Path):
    """Long uris are named by their digest, so that an id always fits."""
    folder = tmp_path / ("ü" * 100) / ("ö" * 100)
    folder.mkdir(parents=True)
    (folder / "a.csv").write_bytes(b"1")
    (folder / "b.csv").write_bytes(b"1")
    source = Directory(tmp_path)
    ids = {
        source.envelope(c, g, NOW).event_id for c in source.scan({}, NOW).changes for g in (1, 2)
    }
    assert len(ids) == 4
    assert max(map(len, ids)) <= 1024
