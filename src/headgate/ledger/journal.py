"""The journal: one line per attempt, in batches that are chained and have an order.

The journal is the change feed. A line's hash covers what it says and what it published; a batch's
digest covers its lines; the chain covers every batch before it. Whoever changes an old row would
have to change every later one, and the anchor in the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from headgate.model.entry import Status
from headgate.pg import Link, Record, queries

from .arrays import column, literal
from .publication import Publication, Publishing

Q = queries.load(__file__)

SEALED = "SELECT EXISTS (SELECT FROM headgate.journal WHERE batch = $1 AND n = 1 AND hash = $2)"
_SEAL = (
    "headgate.seal($1::bigint[], $2::int[], $3::text[], $4::smallint[], $5::int[], $6::text[],"
    " $7::text::text[], $8::bytea[], $9, raced, $10)"
)
SEAL = f"SELECT raced, s.batch, s.xid FROM (SELECT '{{}}'::bigint[] AS raced) r, LATERAL {_SEAL} s"
# In one statement, since a lone entry waits for every round trip. LATERAL puts them in this order.
PUBLISH_AND_SEAL = (
    "SELECT raced, s.batch, s.xid FROM headgate.publish($10, $11, $12::bigint[], $13::text::text[],"
    " $14::int[], $15::bigint[], $16::bool[], $17, $18, $19::text[], $20) AS raced,"
    f" LATERAL {_SEAL} s"
)
SEAL_LONE = (
    "SELECT raced, batch, xid FROM headgate.seal_lone($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
    " $12, $13, $14, $15, $16, $17, $18)"
)


@dataclass(slots=True, eq=False)
class Line:
    """How one attempt ended. `published` is what it made visible, as the publication says it."""

    entry: int
    fence: int
    outcome: Status
    attempt: int
    worker: int | None
    reason: str | None
    steps: str
    doc: bytes | None = None
    published: bytes | None = None

    def hash(self) -> bytes:
        """16 bytes that change when anything of this line does."""
        doc = self.doc
        said = orjson.dumps(
            (
                self.entry,
                self.fence,
                self.outcome,
                self.attempt,
                self.worker,
                self.reason,
                self.steps,
                None if doc is None else len(doc),  # it ends where it ended
            )
        )
        return hashlib.sha256(said + (doc or b"") + (self.published or b"")).digest()[:16]


def published(content: bytes, effect: bytes, artifacts: str | None, removed: bool) -> bytes:
    """What a publication adds to the hash of its journal line. Both digests have 32 bytes."""
    return b"%b%b%d%b" % (content, effect, removed, (artifacts or "").encode())


def batch_digest(hashes: Sequence[bytes]) -> bytes:
    """The digest of a batch over its lines, in their order."""
    return hashlib.sha256(b"".join(hashes)).digest()


async def seal(
    link: Link,
    pipeline: int,
    lines: Sequence[Line],
    publishing: Publishing | None = None,
) -> set[int]:
    """Publish, write the lines, and give their batch its position. Only COMMIT may follow.

    The entries that lost a race for a head; then nothing was written, and all must be undone.
    """
    hashes = [line.hash() for line in lines]
    written = (
        [x.entry for x in lines],
        column([x.fence for x in lines]),
        column([x.outcome for x in lines]),
        column([x.attempt for x in lines]),
        column([x.worker for x in lines]),
        column([x.reason for x in lines]),
        literal(column([x.steps for x in lines])),
        column([x.doc for x in lines]),
        b"".join(hashes),
    )
    if publishing is None:
        row = await link.fetchrow(SEAL, *written, pipeline)
    else:
        row = await link.fetchrow(PUBLISH_AND_SEAL, *written, *publishing.columns())
    return _sealed(link, row, hashes[0])


async def seal_lone(
    link: Link, pipeline: int, deployment: int, line: Line, shown: Publication
) -> set[int]:
    """The same for an entry that is settled by itself; its fence is checked here as well."""
    hashed = line.hash()
    row = await link.fetchrow(
        SEAL_LONE,
        pipeline,
        line.entry,
        line.fence,
        line.outcome,
        line.attempt,
        line.worker,
        line.reason,
        line.steps,
        line.doc,
        hashed,
        deployment,
        shown.uri,
        shown.version,
        shown.predecessor,
        shown.removed,
        shown.content,
        shown.effect,
        shown.artifacts,
    )
    return _sealed(link, row, hashed)


def _sealed(link: Link, row: Record | None, first: bytes) -> set[int]:
    assert row is not None
    # After a crash Postgres may hand out a lost transaction's number again, and our batch number
    # too; only our own line, with its hash, says that it was us who committed.
    link.xid, link.proof = row["xid"], (SEALED, (row["batch"], first))
    return set(row["raced"])
