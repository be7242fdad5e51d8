"""A command of Headgate for as long as somebody holds its standard input open.

The demo's own `up` and `serve` run in process groups of their own, so that all of one can be killed
at once. If the demo itself is killed, nobody else would end them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def _end_with_our_parent() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    from headgate.cli.ending import run

    threading.Thread(target=_end_with_our_parent, daemon=True).start()
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
