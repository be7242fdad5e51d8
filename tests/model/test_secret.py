"""A secret says where it is, never what it is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import headgate as hg
from headgate.errors import ConfigError


def test_a_secret_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A rotated secret is picked up without a restart."""
    token = hg.env("FEED_TOKEN", prefix="Bearer ")
    for value in ("one", "two"):
        monkeypatch.setenv("FEED_TOKEN", value)
        assert token.reveal() == f"Bearer {value}"
    (tmp_path / "token").write_text("three\n")
    assert hg.file(tmp_path / "token").reveal() == "three"


def test_a_secret_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in its repr, its text or a pickle."""
    monkeypatch.setenv("FEED_TOKEN", "hush")
    token = hg.env("FEED_TOKEN")
    shown = f"{token!r} {token} {[token]} {pickle.dumps(token)!r}"
    assert "hush" not in shown
    assert "FEED_TOKEN" in repr(token)


@pytest.mark.parametrize("value", ["", "hush\nInjected: yes", "hush\0", "hush\r"])
def test_a_secret_that_cannot_be_sent_is_named_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    """Empty or with a line break: the error names the place and keeps the value."""
    place = tmp_path / "token"
    place.write_bytes(value.encode() + b"x\ny" * bool(value))
    with pytest.raises(ConfigError) as error:
        hg.file(place).reveal()
    assert str(place) in str(error.value)
    assert "hush" not in str(error.value) + error.value.hint


def test_a_missing_secret_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The operator learns which variable or file to provide."""
    monkeypatch.delenv("FEED_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="FEED_TOKEN is not set"):
        hg.env("FEED_TOKEN").reveal()
    with pytest.raises(ConfigError, match="cannot be read"):
        hg.file(tmp_path / "none").reveal()
    (tmp_path / "large").write_text("x" * 100_000)
    with pytest.raises(ConfigError, match="too large"):
        hg.file(tmp_path / "large").reveal()
