"""Starts commands quickly: a process that has everything imported and forks for each of them.

Each command is a process of its own, with its own exit code, descriptors, folder and environment;
it only saves the interpreter's start. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

PRELOADED = [
    "headgate.cli.config",
    "headgate.cli.db",
    "headgate.cli.doctor",
    "headgate.cli.entry",
    "headgate.cli.envelope",
    "headgate.cli.figures",
    "headgate.cli.init",
    "headgate.cli.operation",
    "headgate.cli.publication",
    "headgate.cli.quarantine",
    "headgate.cli.replay",
    "headgate.cli.slo",
    "headgate.cli.status",
    "headgate.cli.token",
    "headgate.cli.try_",
    "headgate.cli.up",
    "headgate.cli.verify",
    "headgate.ledger.changes",
    "headgate.ledger.history",
    "headgate.ledger.published",
    "headgate.ledger.quarantined",
    "headgate.ledger.replays",
    "headgate.ledger.revert",
    "headgate.library.pipeline",
    "headgate.model.manifest",
    "headgate.model.parse",
    "headgate.runtime.again",
    "headgate.runtime.child",
    "headgate.runtime.doctor",
    "headgate.runtime.hatch",
    "headgate.runtime.load",
    "headgate.runtime.loop",
    "headgate.runtime.rehearse",
    "headgate.runtime.replays",
    "headgate.runtime.supervise",
    "headgate.runtime.verify",
    "headgate.settings.load",
    "headgate.sources.bucket",
    "headgate.sources.manifest",
    "rich.console",
    "rich.padding",
    "rich.table",
    "rich.text",
    "tomllib",
    "uvloop",
]


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if (pid := os.fork()) == 0:
            _become(request)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(json.dumps(code), flush=True)


def _become(request: dict[str, Any]) -> None:
    from headgate.cli.ending import run

    code = 70
    try:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for number, path in ((1, request["out"]), (2, request["err"])):
            os.dup2(os.open(path, flags), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = run(request["args"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
