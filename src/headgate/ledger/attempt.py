"""An attempt: one entry on its way through the path, and everything its end will write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from time import monotonic
from typing import Any

import orjson

from headgate.errors import EffectRefused
from headgate.model.crash import reached
from headgate.model.energy import Charge
from headgate.model.entry import Point, Status
from headgate.model.facts import Item
from headgate.model.identity import EffectKey
from headgate.model.kept import kept_json
from headgate.model.object import Artifact, Object
from headgate.model.ports import Chunks, Spool
from headgate.model.validation.outcomes import Outcomes
from headgate.model.verdict import Finalized, Quarantine, Release, Retry, Skipped, Verdict

from .gate import Claim
from .journal import Line, published
from .publication import Publication, as_written
from .run import RunNow

FINALIZED = Finalized()


def _end(*steps: Status) -> tuple[Status, str]:
    """How an attempt may end: its outcome, and its last steps, which take no time."""
    return steps[-1], "".join(f" {step.value}:?" for step in steps)


_FINALIZED = _end(Status.PROMOTED, Status.FINALIZED)
_SKIPPED = _end(Status.SKIPPED)
_WAITING = _end(Status.FAILED, Status.WAITING)
_QUARANTINED = _end(Status.FAILED, Status.ROLLED_BACK, Status.QUARANTINED)
_BACK = {True: _end(Status.WAITING), False: _end(Status.RECEIVED)}
_FENCED = _end(Status.FENCED)
# Most steps take less than a millisecond.
_AT_ONCE = {str(step.value): f" {step.value}:0" for step in Status}


@lru_cache(1024)
def _timed(steps: str, milliseconds: int) -> str:
    """The last steps of an attempt, which come at the same time."""
    return steps.replace("?", str(milliseconds))


@lru_cache(1024)
def _counted(*counts: tuple[str, int]) -> bytes:
    """What most attempts say: how many rows of each table."""
    return kept_json({"rows": dict(counts)})


def database_now(claim: Claim, began: float) -> datetime:
    """The database's clock, as far as we know it: its time at the claim, and what passed since."""
    return claim.claimed_at + timedelta(seconds=monotonic() - began)


class Attempt:
    """One entry on its way through the path.

    Most hold little, and there are many: what an attempt has none of is said by the class.
    """

    verdict: Verdict = Release("unprepared")
    object: Object | None = None
    content: bytes | None = None
    spools: dict[bytes, Spool] | None = None
    rows: dict[str, Chunks] | None = None
    sizes: dict[str, list[int]] | None = None  # rows in each chunk, where there are several
    counts: dict[str, int] | None = None  # rows of each table
    added: dict[str, frozenset[str]] | None = None
    artifacts: list[dict[str, Any]] | None = None
    checks: Outcomes | None = None
    facts: dict[str, Any] | None = None
    item: Item | None = None  # what a catalog says of it
    objects: list[tuple[bytes, int]] | None = None
    needs: dict[bytes, int] | None = None  # bytes it points to without having made them
    previous: Object | None = None  # the version before, for whoever takes its effects back
    retired = False  # the source took it away; what was published stays readable
    publication: Publication | None = None
    preview: str | None = None
    cpu_seconds = 0.0  # what its handlers took, where they had a thread for themselves
    energy: Charge | None = None  # what the whole run took, where that is asked for
    steps = "claimed:0"
    staged = False
    ended = False  # durably; an outage later in its batch does not end it again
    lost = False  # the lease was: nothing of this was kept

    def __init__(self, claim: Claim, run: RunNow) -> None:
        self.claim = claim
        self.run = run
        self.began = monotonic()

    def reach(self, step: str, point: Point) -> None:
        """A step is done: so many milliseconds after the claim."""
        passed = monotonic() - self.began
        self.steps += _AT_ONCE[step] if passed < 0.001 else f" {step}:{int(passed * 1000)}"
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
        if artifact.name == "data":
            raise EffectRefused(
                f"{by} made an artifact called 'data'",
                hint="that is what the object itself is called; choose another name",
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

    def restore(self, artifacts: Sequence[dict[str, Any]]) -> None:
        """Point to artifacts that an earlier version made; they must still be in the store."""
        if artifacts:
            self.artifacts = list(artifacts)
            self.needs = {bytes.fromhex(a["digest"]): a["size"] for a in artifacts}

    def produced(
        self,
        table: str,
        rows: int,
        chunk: bytes,
        added: frozenset[str],
        spill: Callable[[], Chunks],
    ) -> None:
        """Rows for a table, as a chunk of JSON. `spill` makes the list for more than one chunk."""
        assert self.counts is not None, "what is counted begins with none"
        if self.rows is None:
            self.rows = {table: [chunk]}
        elif (chunks := self.rows.get(table)) is None:
            self.rows[table] = [chunk]
        else:
            self.sizes = self.sizes or {}
            if len(chunks) == 1:
                grown = spill()
                grown.append(chunks[0])
                self.rows[table] = chunks = grown
                self.sizes[table] = [self.counts[table]]
            chunks.append(chunk)
            self.sizes[table].append(rows)
        self.counts[table] += rows
        if added:
            before = self.added or {}
            self.added = {**before, table: before.get(table, frozenset()) | added}

    def give_up(self, error: BaseException) -> None:
        """Its failure could not even be judged: a person has to look, and nothing is published."""
        kind = type(error).__name__
        self.verdict = Quarantine("permanent", kind, f"its failure could not be judged: {kind}")

    @property
    def keepable(self) -> bytes | None:
        """The digest of its bytes, if they were kept or came inside their message."""
        return self.content if self.objects or self.claim.data is not None else None

    def publish(self, effect_key: EffectKey) -> None:
        """What readers will see, after the head the claim saw."""
        claim, head = self.claim, self.claim.head
        content = self.content or (head.content if head else b"")
        artifacts = orjson.dumps(self.artifacts).decode() if self.artifacts else None
        if self.retired and head is not None:
            artifacts = as_written(head.artifacts)
            self.note("retired", True)
        self.publication = Publication(
            claim.id,
            claim.uri,
            head.version + 1 if head else 1,
            head.entry if head else None,
            claim.removed,
            content,
            effect_key(claim.uri, claim.key.hex(), content),
            artifacts,
        )

    def line(self, deployment: int, *, fenced: bool = False) -> Line:
        """The journal line of this attempt."""
        c = self.claim
        end, reason, facts = (_FENCED, "fenced", None) if fenced else self._ending()
        if facts is not None and end is not _FINALIZED:
            # A publication says by itself which code made it, and of what.
            facts = {**facts, "deployment": deployment}
            if self.keepable is not None:
                facts["content"] = self.keepable.hex()
        outcome, last = end
        steps = self.steps + _timed(last, int((monotonic() - self.began) * 1000))
        doc = shown = None
        if end is _FINALIZED and (p := self.publication) is not None:
            shown = published(p.content, p.effect, p.artifacts, p.removed)
        if self.energy is not None and not fenced:
            if facts is None or facts == {"rows": self.counts}:
                doc = self.energy.document(self.counts)
            else:
                doc = kept_json({**facts, "energy": list(self.energy.used)})
        elif facts:
            doc = kept_json(facts)
        elif self.counts and end is _FINALIZED:
            doc = _counted(*self.counts.items())
        return Line(c.id, c.fence, outcome, c.attempts, c.worker, reason, steps, doc, shown)

    def _ending(
        self,
    ) -> tuple[tuple[Status, str], str | None, Mapping[str, Any] | None]:
        match self.verdict:
            case Finalized():
                return _FINALIZED, None, self._published()
            case Skipped(reason):
                return _SKIPPED, reason, self._said()
            case Retry(_, reason, error, _):
                return _WAITING, reason, {**self._said(), "error": error}
            case Quarantine(classed, reason, error):
                said = {**self._said(), "error": error, "class": classed}
                return _QUARANTINED, reason, said
            case Release(reason):
                return _BACK[self.claim.waited], reason, None

    def _said(self) -> dict[str, Any]:
        """What the journal says about this attempt."""
        said = self.facts or {}
        if self.checks is not None and (told := self.checks.told()):
            said = {**said, "checks": told}
        return {"rows": self.counts, **said} if self.counts else said

    def _published(self) -> dict[str, Any] | None:
        """The same of what was published, with its item. None: at most there are rows."""
        if self.facts is None and self.item is None and self.checks is None:
            return None
        said = self._said()
        return said if self.item is None else {**said, "item": self.item.document()}

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
