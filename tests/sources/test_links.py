"""What a folder may hold besides plain files: links, pipes, sockets, and uris that climb."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import msgspec
import pytest
from tests.sources.looking import found, look, now, one

from headgate.errors import ObjectMissing, PermissionDenied
from headgate.sources import Directory


def test_links_are_followed_inside_the_folder_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """A link to a neighbour is a file; one that leads out or loops is not, and the log says so."""
    root, outside = tmp_path / "in", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret").write_bytes(b"s")
    (root / "data.csv").write_bytes(b"d")
    (root / "latest.csv").symlink_to("data.csv")
    (root / "leak.csv").symlink_to(outside / "secret")
    (root / "way-out").symlink_to(outside)
    (root / "loop").symlink_to(".")
    (root / "self").symlink_to("self")
    (root / "broken").symlink_to("nowhere")
    source = Directory(root)
    with caplog.at_level(logging.WARNING):
        assert found(source) == {"data.csv", "latest.csv"}
        assert found(source) == {"data.csv", "latest.csv"}
    assert len(caplog.messages) == 3
    assert "outside" in "".join(caplog.messages)


def test_the_folder_itself_may_be_a_link(tmp_path: Path):
    """`incoming` may point to another disk; its uris keep the name it was declared with."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "a.csv").write_bytes(b"1")
    (tmp_path / "disk" / "b.csv").symlink_to("a.csv")
    (tmp_path / "in").symlink_to("disk")
    source = Directory(tmp_path / "in")
    assert {c.uri for c in look(source)} == {
        (tmp_path / "in" / name).as_uri() for name in ("a.csv", "b.csv")
    }
    for change in look(source):
        assert b"".join(source.fetch(source.envelope(change, 1, now()))) == b"1"


def test_a_link_swapped_in_later_leads_nowhere(tmp_path: Path):
    """Between scan and read a file or its folder becomes a link to a secret: it is not read."""
    root = tmp_path / "in"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.csv").write_bytes(b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.csv").write_bytes(b"secret")
    source = Directory(root)
    envelope = one(source)
    (root / "sub" / "a.csv").unlink()
    (root / "sub" / "a.csv").symlink_to(tmp_path / "outside" / "a.csv")
    with pytest.raises(PermissionDenied):
        list(source.fetch(envelope))
    (root / "sub" / "a.csv").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises((PermissionDenied, ObjectMissing)):
        list(source.fetch(envelope))


@pytest.mark.parametrize(
    "climb", ["../outside", "x/../../outside", "%2e%2e/outside", "..%2Foutside"]
)
def test_a_uri_cannot_climb_out_of_the_folder(tmp_path: Path, climb: str):
    """An envelope from elsewhere cannot make the source read beyond its folder."""
    (tmp_path / "in").mkdir()
    (tmp_path / "outside").write_bytes(b"secret")
    source = Directory(tmp_path / "in")
    assert not source.owns(f"{source.uri}/{climb}")
    (tmp_path / "in" / "a").write_bytes(b"1")
    stray = msgspec.structs.replace(one(source), uri=f"{source.uri}/{climb}")
    with pytest.raises(ObjectMissing):
        list(source.fetch(stray))


@pytest.mark.timeout(10)
def test_pipes_and_sockets_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A pipe in the folder would hold a reader for ever; it is not even looked into."""
    os.mkfifo(tmp_path / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(tmp_path)  # a socket's path must be short
        listener.bind("socket.csv")
    (tmp_path / "a.csv").write_bytes(b"1")
    source = Directory(tmp_path)
    envelope = one(source)
    (tmp_path / "a.csv").unlink()
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(ObjectMissing, match="not a regular file"):
        list(source.fetch(envelope))
