"""Real disks for tests: one that fills up, one that loses power; and a user without rights."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# _IOR('X', 125, __u32), and "do not flush the journal": what was not synced is lost.
_EXT4_SHUTDOWN = 0x8004587D
_NO_FLUSH = struct.pack("=I", 2)
NOBODY = 65534


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine cannot {command[0]}: {done.stderr.strip()}")


def _need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own at `folder`, gone afterwards."""
    _need_root()
    folder.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Machine:
    """An ext4 disk whose plug can be pulled."""

    def __init__(self, tmp: Path) -> None:
        _need_root()
        if shutil.which("mkfs.ext4") is None:
            pytest.skip("NOT TESTED: no mkfs.ext4 here")
        self._image, self.disk = tmp / "disk.img", tmp / "disk"
        self.disk.mkdir()
        with self._image.open("wb") as image:
            image.truncate(32 << 20)
        _run("mkfs.ext4", "-q", str(self._image))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.disk))

    def lose_power(self) -> None:
        """Whatever is only in the kernel's memory is lost; then the machine comes up again."""
        fd = os.open(self.disk, os.O_RDONLY)
        fcntl.ioctl(fd, _EXT4_SHUTDOWN, _NO_FLUSH)
        os.close(fd)
        self.shut_down()
        self._mount()

    def shut_down(self) -> None:
        subprocess.run(["umount", str(self.disk)], check=True)


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may do anything; be nobody for a while. Others already lack rights."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
