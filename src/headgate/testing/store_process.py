"""What the store suite does in another process, to kill it there or to measure it alone.

python -m headgate.testing.store_process OPENER URI ACT [NUMBER]
"""

from __future__ import annotations

import resource
import sys
from importlib import import_module
from random import Random

from headgate.model.ports import Store

MIB = 1 << 20


def say(word: str) -> None:
    """One line to the parent, at once."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def half_write(store: Store, _: int) -> None:
    """Write to a spool, say so, and wait to be killed."""
    spool = store.spool()
    for _ in range(3):
        spool.write(bytes(MIB))
    say("writing")
    sys.stdin.read()


def keep_on(store: Store, seed: int) -> None:
    """Keep one object after the other and name each that is kept, until killed."""
    dice = Random(seed)
    while True:
        spool = store.spool()
        for _ in range(dice.randrange(1, 4)):
            spool.write(dice.randbytes(dice.choice((1, 8192, 100_000))))
        store.keep(spool)
        say(spool.digest.hex())


def project_on(store: Store, _: int) -> None:
    """Write the same sixty files again and again, and number each time that is done."""
    for number in range(256):
        content = bytes([number]) * 20_000
        store.project({f"page/{n % 5}/{n}.json": content for n in range(60)})
        say(str(number))


def stream(store: Store, mebibytes: int) -> None:
    """Write, keep, check and read a large object; say how many MiB that took on top."""
    chunk = bytearray(MIB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spool = store.spool()
    for number in range(mebibytes):
        chunk[:8] = number.to_bytes(8, "big")
        spool.write(memoryview(chunk))
    store.keep(spool)
    assert store.check(spool.digest)
    with store.open(spool.digest) as whole:
        assert sum(map(len, iter(lambda: whole.read(MIB), b""))) == mebibytes * MIB
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    say(str(grown // (1024 if sys.platform != "darwin" else MIB)))


ACTS = {"half_write": half_write, "keep_on": keep_on, "project_on": project_on, "stream": stream}


def main() -> None:
    """Open the store as another process would, and act."""
    opener, uri, act, *rest = sys.argv[1:]
    module, _, function = opener.partition(":")
    store: Store = getattr(import_module(module), function)(uri)
    ACTS[act](store, int(rest[0]) if rest else 0)


if __name__ == "__main__":
    main()
