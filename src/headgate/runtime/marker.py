"""What a worker's handlers are doing right now, where its supervisor can see it after a crash.

A few words of memory shared through an inherited file: one slot per handler that can run at once,
holding the entry and when it began. When the worker dies, the slots say which entries may have
killed it; while it lives, whether one of them is past its deadline.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from dataclasses import dataclass

_SLOT = struct.Struct("=qd")


@dataclass(frozen=True, slots=True)
class Running:
    """An entry whose handler is at work, in which slot and for how long."""

    slot: int
    entry: int
    seconds: float


class Marker:
    """Shared slots. The worker writes, the supervisor reads."""

    def __init__(self, fd: int, slots: int) -> None:
        self.fd = fd
        self.slots = slots
        self._map = mmap.mmap(fd, slots * _SLOT.size)
        # Each slot is an entry and a time. To write them like this takes half as long as to pack.
        self._entries = memoryview(self._map).cast("q")
        self._since = memoryview(self._map).cast("d")

    @classmethod
    def create(cls, slots: int) -> Marker:
        file = tempfile.TemporaryFile()  # noqa: SIM115  (the descriptor outlives the object)
        fd = os.dup(file.fileno())
        file.close()
        os.ftruncate(fd, slots * _SLOT.size)
        return cls(fd, slots)

    @classmethod
    def alone(cls, slots: int) -> Marker:
        """For a worker without a supervisor: nobody else looks, and it ends with the worker."""
        return cls(-1, slots)

    def begin(self, slot: int, entry: int) -> None:
        """The handler of `entry` starts in `slot`."""
        self._since[2 * slot + 1] = time.monotonic()
        self._entries[2 * slot] = entry

    def end(self, slot: int) -> None:
        """The slot is free."""
        self._entries[2 * slot] = 0

    def running(self) -> list[Running]:
        """Entries whose handlers are at work."""
        now = time.monotonic()
        slots = (_SLOT.unpack_from(self._map, n * _SLOT.size) for n in range(self.slots))
        return [Running(n, entry, now - since) for n, (entry, since) in enumerate(slots) if entry]

    def close(self) -> None:
        self._entries.release()
        self._since.release()
        self._map.close()
        if self.fd >= 0:
            os.close(self.fd)
