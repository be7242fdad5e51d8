"""Set aside on arrival: what came but cannot run goes straight to quarantine, with its bytes.

A record that is no envelope, a message from a dead letter queue: it is admitted like any other, so
that the same thing told again is a duplicate, and quarantined in the same transaction, so that no
worker ever sees it. Its journal is that of an attempt that nobody made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from headgate.model.entry import Status
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key
from headgate.model.verdict import Quarantine
from headgate.pg import Link, queries

from . import journal, quarantine

Q = queries.load(__file__)

_STEPS = "claimed failed rolled_back quarantined"


@dataclass(frozen=True, slots=True)
class Aside:
    """Something that came and cannot run: why, and what may be shown of its bytes."""

    envelope: Envelope
    verdict: Quarantine
    preview: str | None = None


async def park(link: Link, pipeline: int, deployment: int, admitted: Sequence[Aside]) -> None:
    """Quarantine entries that this transaction has admitted, before anyone can see them."""
    if not admitted:
        return
    why = {change_key(a.envelope): a for a in admitted}
    rows = await link.fetch(Q.withdraw, pipeline, list(why))
    rows.sort(key=lambda row: row["id"])
    asides: list[quarantine.Aside] = []
    lines: list[journal.Line] = []
    for entry, subject, key, part in rows:
        aside = why[key]
        said, data = aside.verdict, aside.envelope.data
        content = None if data is None else hashlib.sha256(data).digest()
        asides.append(
            quarantine.Aside(
                entry,
                subject,
                1,
                1,
                said.classed,
                said.reason,
                said.error,
                aside.preview,
                content,
                None,
                part,
            )
        )
        facts = {"error": said.error, "class": said.classed, "deployment": deployment}
        if content is not None:
            facts["content"] = content.hex()
        doc = orjson.dumps(facts)
        lines.append(journal.Line(entry, 1, Status.QUARANTINED, 1, None, said.reason, _STEPS, doc))
    await quarantine.enter(link, pipeline, deployment, asides)
    await journal.seal(link, pipeline, lines)
