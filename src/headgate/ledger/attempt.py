"""An attempt: one entry on its way through the path, with what its handlers gave back so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from headgate.errors import EffectRefused
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.identity import effect_key
from headgate.model.object import Artifact, Object
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Chunks, Spool
from headgate.model.verdict import Finalized, Quarantine, Verdict

from .gate import Claim
from .publication import Publication
from .run import RunNow
from .settlement import NOTHING, Settlement

FINALIZED = Finalized()


class Attempt:
    """One entry on its way through the path. Most hold little: containers are made when needed."""

    __slots__ = (
        "added", "artifacts", "began", "claim", "content", "counts", "facts",
        "object", "objects", "rows", "run", "settlement", "spools", "staged", "steps", "verdict",
    )  # fmt: skip

    def __init__(self, claim: Claim, run: RunNow) -> None:
        self.claim = claim
        self.run = run
        self.began = time.monotonic()
        self.steps = ["claimed:0"]
        self.verdict: Verdict = FINALIZED
        self.object: Object | None = None
        self.content: bytes | None = None
        self.spools: dict[bytes, Spool] | None = None
        self.rows: dict[str, Chunks] | None = None
        self.counts: dict[str, int] | None = None
        self.added: dict[str, frozenset[str]] | None = None
        self.artifacts: list[dict[str, Any]] | None = None
        self.facts: dict[str, Any] | None = None
        self.objects: list[tuple[bytes, int]] | None = None
        self.staged = False
        self.settlement: Settlement | None = None

    def reach(self, step: str, point: Point) -> None:
        """A step is done: so many milliseconds after the claim."""
        self.steps.append(f"{step}:{int((time.monotonic() - self.began) * 1000)}")
        reached(point)

    def hold(self, name: bytes, spool: Spool) -> None:
        """A spool to be kept, or discarded with the attempt."""
        if self.spools is None:
            self.spools = {}
        self.spools[name] = spool

    def made(self, artifact: Artifact, spool: Spool, by: str) -> None:
        """A file that a transform made, once all of it is in its spool."""
        for what, text in (("name", artifact.name), ("media type", artifact.media_type)):
            if not _is_storable(text):
                raise EffectRefused(
                    f"{by} made an artifact whose {what} cannot be stored: {text!a}",
                    hint="use text without NUL characters and without lone surrogates",
                )
        self.artifacts = self.artifacts or []
        if any(a["name"] == artifact.name for a in self.artifacts):
            raise EffectRefused(f"{by} made two artifacts called {artifact.name!r}")
        if self.spools is not None and spool.digest in self.spools:
            spool.discard()  # the same bytes are on their way already
        else:
            self.hold(spool.digest, spool)
        self.artifacts.append(
            {
                "name": artifact.name,
                "digest": spool.digest.hex(),
                "size": spool.size,
                "media_type": artifact.media_type,
            }
        )

    def count(self, table: str, rows: int) -> int:
        """So many more rows of a table; how many that makes."""
        self.counts = self.counts or {}
        total = self.counts[table] = self.counts.get(table, 0) + rows
        return total

    def produced(
        self,
        table: str,
        rows: int,
        chunk: bytes,
        added: frozenset[str],
        spill: Callable[[], Chunks],
    ) -> None:
        """Rows for a table, as a chunk of JSON. `spill` makes the list for more than one chunk."""
        self.rows = self.rows or {}
        chunks = self.rows.get(table)
        if chunks is None:
            self.rows[table] = [chunk]
        else:
            if len(chunks) == 1:
                grown = spill()
                grown.append(chunks[0])
                self.rows[table] = chunks = grown
            chunks.append(chunk)
        self.count(table, rows)
        if added:
            before = self.added or {}
            self.added = {**before, table: before.get(table, frozenset()) | added}

    def give_up(self, error: BaseException) -> None:
        """Its failure could not even be judged: a person has to look, and nothing is published."""
        kind = type(error).__name__
        self.verdict = Quarantine("permanent", kind, f"its failure could not be judged: {kind}")

    def said(self) -> Mapping[str, Any]:
        """What the journal says about this attempt."""
        if not self.counts:
            return self.facts or NOTHING
        return {"rows": self.counts, **(self.facts or {})}

    def ending(self) -> Settlement:
        """This attempt on its way into the journal."""
        claim = self.claim
        return Settlement(
            claim=claim,
            verdict=self.verdict,
            steps=self.steps,
            began=self.began,
            rows=self.rows or NOTHING,
            added=self.added or NOTHING,
            objects=self.objects or (),
            facts=self.said(),
            # Only bytes that were kept, or came inside their message, can be shown again.
            content=self.content if self.objects or claim.data is not None else None,
            given=None if self.object is None else (self.object, self.run),
        )

    def publication(self, declared: Pipeline) -> Publication:
        """What readers will see, after the head the claim saw."""
        claim, head = self.claim, self.claim.head
        content = self.content or (head.content if head else b"")
        return Publication(
            entry=claim.id,
            uri=claim.uri,
            version=head.version + 1 if head else 1,
            predecessor=head.entry if head else None,
            removed=claim.removed,
            content=content,
            effect=effect_key(
                pipeline=declared.name,
                version=declared.version,
                uri=claim.uri,
                generation=claim.key.hex(),
                content=content,
                params=declared.params_digest,
            ),
            artifacts=orjson.dumps(self.artifacts).decode() if self.artifacts else None,
        )

    def note(self, fact: str, value: Any) -> None:
        """Something the journal should say about this attempt."""
        if self.facts is None:
            self.facts = {}
        self.facts[fact] = value

    def discard(self) -> None:
        for spool in (self.spools or {}).values():
            spool.discard()


def _is_storable(text: object) -> bool:
    # Neither JSON nor Postgres has half a character, and jsonb has no NUL.
    if not isinstance(text, str) or "\0" in text:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in text)
