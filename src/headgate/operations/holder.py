"""Who holds a lease: a process of a host, named so that another one there can see whether it lives.

A process that was killed cannot give its lease back. On the same machine nobody has to wait for it
to run out: a number of a process, in its namespace, with the time it was started, is never used
twice.
"""

from __future__ import annotations

import itertools
import os
import socket
from functools import lru_cache


def holder() -> str:
    """This process: `host/machine/pid/started`."""
    return _holder(os.getpid())


@lru_cache(maxsize=1)
def _holder(pid: int) -> str:
    host = socket.gethostname().replace("/", "-")[:63]
    return f"{host}/{_machine()}/{pid}/{_started(pid)}"


def new_token() -> bytes:
    """16 bytes that no attempt had before: a prefix by chance, and a number."""
    return _prefix(os.getpid()) + next(_NUMBERS).to_bytes(6, "big")


_NUMBERS = itertools.count(1)


@lru_cache(maxsize=1)
def _prefix(pid: int) -> bytes:
    return os.urandom(10)  # another one in each process, also in a forked one


def is_dead(said: str) -> bool:
    """True only if the holder was a process of this machine that is gone."""
    parts = said.split("/")
    if len(parts) != 4 or parts[1] == "" or parts[1] != _machine():
        return False
    try:
        return _started(int(parts[2])) != parts[3]
    except ValueError:
        return False


@lru_cache(maxsize=1)
def _machine() -> str:
    """This boot of this kernel, and our namespace of processes; empty where that is not told."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip().replace("-", "")[:12]
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process was started, in ticks since boot; empty for none (a zombie is none)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may hold anything; what follows the last one is ours to read.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
