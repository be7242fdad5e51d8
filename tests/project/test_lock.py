"""The lock installs the same bytes everywhere, from whichever mirror the user has."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = re.split(r"\n(?=\S)", LOCK.strip())


def test_every_pin_is_exact_and_hashed() -> None:
    """A file that was swapped on the way is refused, whatever package it belongs to."""
    loose = [
        pin.splitlines()[0]
        for pin in PINS
        if not re.match(r"[a-z0-9][a-z0-9.-]*==\S+", pin) or "--hash=sha256:" not in pin
    ]
    assert not loose


def test_the_lock_names_no_place() -> None:
    """No addresses and no folders: it works behind any mirror and says nothing of its maker."""
    assert not re.search(r"://|^\s*-(?:i|f|e)\b|--(?:extra-)?index-url|--find-links", LOCK, re.M)
    assert not re.search(r"(?:^|\s)(?:/|~|[A-Za-z]:\\)\w", LOCK)


def test_the_lock_covers_what_the_project_declares() -> None:
    """A dependency that was added but not locked is noticed here, not on a fresh machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["arrow"],
        *project["dependency-groups"]["dev"],
    ]
    names = {re.match(r"[\w.-]+", line).group().lower().replace("_", "-") for line in declared}  # pyright: ignore[reportOptionalMemberAccess]
    locked = {pin.split("==")[0] for pin in PINS}
    assert names <= locked, f"run make lock; missing: {sorted(names - locked)}"
