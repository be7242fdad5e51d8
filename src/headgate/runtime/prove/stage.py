"""The stage: the process that has the user's pipeline in it while a world is played.

    python -m headgate.runtime.prove.stage LIFE

It imports Headgate once and then forks for each job that comes in as a line of JSON: a world needs
two or more processes, and an interpreter's start costs more than most handlers do. Each job has a
number; it is answered with the process it became, and with its exit code. When `LIFE` closes,
whoever started this is gone, and so are we.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from typing import Any

import orjson

from headgate.errors import HeadgateError
from headgate.runtime.hatch import learn
from headgate.runtime.loop import run
from headgate.runtime.prove.imports import look_around

WRONG, BROKEN = 2, 70
_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
# What a child needs and the job itself does not import by name.
_PRELOADED = ("uvloop", "pydantic", "csv", "json", "headgate", "headgate.runtime.prove.acting")


def main() -> None:
    """Fork for each job, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides
    sys.dont_write_bytecode = True
    learn(*_PRELOADED)
    _learn_rows()
    look_around()
    # What is loaded by now is never looked at again, so that no child copies it only to do so.
    gc.collect()
    gc.freeze()
    life = int(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who wait for a job go unmourned
    for line in sys.stdin.buffer:
        if os.fork() == 0:
            _wait_for(orjson.loads(line), life)


def _learn_rows() -> None:
    """Make a first schema of rows: what pydantic imports for that, no child has to.

    Plugins of pydantic are somebody else's code, and who brings them may be known in a child alone:
    they are not looked for here.
    """
    from pydantic import TypeAdapter
    from typing_extensions import TypedDict

    class Row(TypedDict):
        n: int

    said = os.environ.get(_PLUGINS)
    os.environ[_PLUGINS] = "__all__"
    try:
        TypeAdapter(list[Row])
    finally:
        del os.environ[_PLUGINS]
        if said is not None:
            os.environ[_PLUGINS] = said


def _wait_for(job: dict[str, Any], life: int) -> None:
    """Fork once more and tell how it ended: several jobs may run at once. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        _become(job, life)
    _answer(job, pid=pid)
    _, status = os.waitpid(pid, 0)
    _answer(job, code=os.waitstatus_to_exitcode(status))
    os._exit(0)


def _answer(job: dict[str, Any], **said: int) -> None:
    os.write(1, orjson.dumps({"job": job["number"], **said}) + b"\n")


def _become(job: dict[str, Any], life: int) -> None:
    """Be the process of this job, from its folder to its exit code. Never returns."""
    code = BROKEN
    try:
        # A group of its own: what a handler starts ends with it.
        os.setsid()
        threading.Thread(target=_end_with, args=(life,), daemon=True).start()
        _settle_in(job)
        code = _play(job)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _end_with(life: int) -> None:
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


def _settle_in(job: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["work"])
    # Neighbours are imported from the copies, as a worker would from the folder it is started in.
    sys.path.insert(0, job["work"])
    said = os.open(job["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(said, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # A kill loses nothing that the kernel has, and nothing here has to survive a power cut.
    os.fsync = os.fdatasync = lambda _: None


def _play(job: dict[str, Any]) -> int:
    from headgate.runtime.prove.acting import Actor

    try:
        actor = Actor(job)
        told = actor.look() if job["kind"] == "look" else run(actor.play)
    except HeadgateError as error:
        told = {"wrong": str(error), "hint": error.hint}
    with open(job["told"], "wb") as file:
        file.write(orjson.dumps(told))
    return WRONG if "wrong" in told else 0


if __name__ == "__main__":
    main()
