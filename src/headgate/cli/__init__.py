"""The command line: one file per noun, loaded when it is asked for.

`headgate --help` answers within 100 ms of a bare interpreter: here and at the top of the command
modules nothing heavier than click is imported. Tables are for people, `--json` is for programs.
JSON goes to stdout and words about it to stderr; exit 2 means you asked wrongly, 1 that it failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point `headgate`."""
    from .ending import run

    sys.exit(run(args))
