"""Errors that people meet without our command line: in a traceback of their own program."""

from __future__ import annotations

import pickle
import traceback

from headgate.errors import ConfigError, HeadgateError, LedgerUnavailable


def test_a_traceback_ends_with_what_to_do() -> None:
    """Who uses the library sees nothing else of an error."""
    error = LedgerUnavailable("it is away", hint="Start it.")
    assert traceback.format_exception(error)[-1] == "hint: Start it.\n"
    assert str(error) == "it is away"
    assert "hint" not in "".join(traceback.format_exception(HeadgateError("no")))


def test_a_hint_is_said_once_after_a_journey() -> None:
    """Errors travel between processes."""
    there = pickle.loads(pickle.dumps(ConfigError("x", hint="Set it.")))
    assert "".join(traceback.format_exception(there)).count("Set it.") == 1
