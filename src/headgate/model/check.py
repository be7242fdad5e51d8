"""What `headgate doctor` finds: one thing that was looked at, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Check(NamedTuple):
    """One finding. `hint` is the way out, a command where there is one."""

    name: str
    state: Literal["ok", "warn", "fail"]
    text: str
    hint: str = ""
