"""The fence: the kernel lets this process and its children write in the scratch folders only.

Libraries that open files in C and programs that a handler starts pass by everything Python can see.
Where the kernel has Landlock (Linux 5.19 and later) it refuses them. It takes nothing that an
ordinary user does not have, cannot be taken back, and is passed on to every child. Elsewhere there
is none, and `raise_around` says so.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

# The numbers of the system calls are the same on every architecture that is newer than they are.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = sum(1 << right for right in range(4, 13))
# The first version could not allow a rename from one folder to another.
_LEAST_VERSION, _TRUNCATE_VERSION = 2, 3


def raise_around(folders: Sequence[Path]) -> bool:
    """Allow writing in these folders, and nowhere else; False where the kernel cannot."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64", "riscv64"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    if version < _LEAST_VERSION:
        return False
    rights = _WRITE_FILE | _REMOVE_AND_MAKE | _REFER
    if version >= _TRUNCATE_VERSION:
        rights |= _TRUNCATE
    asked = struct.pack("=Q", rights)
    ruleset = libc.syscall(_CREATE_RULESET, asked, ctypes.c_size_t(len(asked)), 0)
    if ruleset < 0:
        return False
    try:
        for folder in (*folders, Path("/dev")):
            _allow(libc, ruleset, folder, rights)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, folder: Path, rights: int) -> None:
    there = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, there)
        if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(there)
