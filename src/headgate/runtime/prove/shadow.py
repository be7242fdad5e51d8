"""Files: what a handler writes is seen, with its line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .scene import Log, is_aside, is_users

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.remove": "remove", "os.rename": "rename", "os.mkdir": "mkdir", "os.rmdir": "rmdir"}


def watch(log: Log, shadow: Path, free: Sequence[Path], real: Sequence[Path]) -> None:
    """See every file that the user's code writes from now on."""

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = given
            if not flags & _WRITES or isinstance(path, int):
                return
        elif event in _CHANGES:
            path, mode = given[0], _CHANGES[event]
        else:
            return
        if not is_aside() and is_users() and not str(path).startswith((str(shadow), "/dev/")):
            log.tell("file", path=os.fsdecode(path), mode=mode or "w", shadow=None)

    sys.addaudithook(hook)
