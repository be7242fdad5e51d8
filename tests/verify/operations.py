"""Operations of the world that is broken, one of each kind of ending.

`loaded` was done after an attempt that failed, and somebody was denied meanwhile; `charged` was
called with another payload after it was done; `left` made a call and stopped; `held` has its
dataset now; `again` was reset after it was done; `given` was interrupted while it asked; the result
of `large` is in the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from headgate.ledger import operation as ledger
from headgate.ledger.deferred import send
from headgate.ledger.operation import Asking, Ending, Lease
from headgate.model.operation import named
from headgate.operations.kept import keep
from headgate.pg import Database

DAY = 86_400.0
LARGE = b"large"


@dataclass
class _Caller:
    """Somebody who calls operations, and shows a new token each time."""

    db: Database
    tokens: int = field(default=0)

    def asking(self, name: str, *, alone: bool = False) -> Asking:
        self.tokens += 1
        whole = named(
            name, key=1, pipeline=None, task=None, dataset=None, operation=None, version=None,
            checksum_in=None, params=None, period=None,
        )  # fmt: skip
        lock_key, token = len(name), self.tokens.to_bytes(16)
        return Asking(whole.key(), lock_key, alone, None, token, DAY, whole, None)

    async def take(self, name: str, *, alone: bool = False) -> Lease:
        lease = await ledger.take(self.db, "me", self.asking(name, alone=alone))
        assert isinstance(lease, Lease)
        return lease

    async def finish(self, lease: Lease, result: bytes = b'"yes"') -> None:
        digest = sha256(result).digest()
        ending = Ending("success", "{}", data=result, codec="json", digest=digest)
        await ledger.end(self.db, lease, ending, lease.id, 1)


async def live(db: Database, lake: str) -> None:
    """Let operations of every kind of ending happen."""
    me = _Caller(db)
    first = await me.take("loaded")
    await ledger.note(db, first.id, "denied", "you", "skip", "{}")
    await ledger.end_in_passing(db, first, Ending("failure", '{"error": "no"}', reason="no"))
    await me.finish(await me.take("loaded"))
    charged = await me.take("charged", alone=True)
    await ledger.call_begin(db, charged, me.asking("charged").key, "post")
    await ledger.call_done(db, charged, "post", b"1")
    await me.finish(charged)
    await ledger.note(db, charged.id, "conflict", "you", "payload", "{}")
    left = await me.take("left")
    await ledger.call_begin(db, left, me.asking("left").key, "post")
    await me.take("held", alone=True)
    again = me.asking("again").key
    await me.finish(await me.take("again"))
    await ledger.reset(db, again, actor="tester", because="wrong", forget=False)
    given = me.asking("given")
    await ledger.take(db, "me", given)
    await ledger.give_back(db, given.key, given.token, given.lock_key)
    large = await me.take("large")
    store, keeping = await keep(db, lake, LARGE, "large", 1)
    async with db.transaction() as link:
        await send(link, [keeping])
        digest = sha256(LARGE).digest()
        await ledger.end_within(
            link, large, Ending("success", "{}", codec="bytes", digest=digest, store=store)
        )
