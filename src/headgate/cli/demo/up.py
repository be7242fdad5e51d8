"""`headgate up` for as long as somebody holds our standard input open.

The demo's own `up` runs in a process group of its own, so that all of it can be killed at once. If
the demo itself is killed, nobody else would end it.
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
    return run(["up", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
