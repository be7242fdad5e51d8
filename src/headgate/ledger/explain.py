"""Why an entry is where it is, in sentences. What no row proves is not said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from headgate.model.entry import DECIDED
from headgate.model.identity import alike
from headgate.model.watermark import by_how_much
from headgate.pg import Database

from .life import JournalLine, Life, life

_EVIDENCE = {
    "version": "its immutable version id, {}",
    "generation": "its generation {}, numbered by the ledger when it admitted the change",
    "sequence": "the source's sequence {}",
    "event": "the source's event id, {}",
}


_DECISIONS = {
    "release": "released it to run again",
    "discard": "discarded it",
    "undiscard": "took the discard back; it was in quarantine again",
    "reset": "had the gates asked again",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence and the rows that prove it, as in `journal 12/3`, `commit 12`, `publication 5`."""

    text: str
    proof: tuple[str, ...]


async def explain(db: Database, entry: int) -> list[Statement]:
    """Which key matched, on what evidence, and what followed. Empty when there is no such entry."""
    known = await life(db, entry)
    return [] if known is None else list(statements(known))


def statements(x: Life) -> Iterator[Statement]:
    """The sentences about one life, in the order in which things happened."""
    yield from _told(x)
    yield from _replayed(x)
    yield from _late(x)
    yield from _asked(x)
    yield from _told_again(x)
    for line in x.lines:
        yield from _line(x, line)
    yield from _calls(x)
    yield from _now(x)


def _told(x: Life) -> Iterator[Statement]:
    row = f"entry {x.entry}"
    if x.replay is not None and x.replay.replays is not None:
        yield Statement(
            f"Its key {x.key} is made of replay {x.replay.id} and the key of entry"
            f" {x.replay.replays}, whose change it is.",
            (row, f"entry {x.replay.replays}"),
        )
        return
    kind, value = x.occurrence
    yield Statement(
        f"Its key {x.key} is made of its uri and {_EVIDENCE[kind].format(value)}.", (row,)
    )
    yield Statement(
        f"It was new to pipeline {x.pipeline}: the key had no entry before this one, "
        f"received {_at(x.received_at)}.",
        (row,),
    )


def _replayed(x: Life) -> Iterator[Statement]:
    r = x.replay
    if r is None:
        return
    what = "brings in an object that was never seen"
    rows = (f"entry {x.entry}", f"replay {r.id}")
    if r.replays is not None:
        what = f"runs publication {r.replays} again, to take its place"
        rows += (f"publication {r.replays}",)
    yield Statement(
        f"Replay {r.id} {what}: asked for by {r.actor} {_at(r.asked_at)}, because: {r.because}.",
        rows,
    )


def _asked(x: Life) -> Iterator[Statement]:
    for a in x.actions:
        if a.verb == "reconcile":
            yield Statement(
                f"Its source had not told of it: {a.actor} found it by reconciling and had it "
                f"admitted, {_at(a.at)}, because: {a.because}.",
                (f"action {a.id}",),
            )
    if x.reverts is None:
        return
    if x.reverts == x.restores:
        yield _again(x)
        return
    back = "leaves nothing, as before it"
    rows = (f"entry {x.entry}", f"publication {x.reverts}")
    if x.restores is not None:
        back = f"brings back publication {x.restores}"
        rows += (f"publication {x.restores}",)
    who = next((a for a in x.actions if a.verb == "revert"), None)
    by = "" if who is None else f", asked by {who.actor} because: {who.because}"
    yield Statement(
        f"It takes publication {x.reverts} back and {back}{by}.",
        rows if who is None else (*rows, f"action {who.id}"),
    )


def _late(x: Life) -> Iterator[Statement]:
    if x.late is not None:
        yield Statement(
            f"It came late: it is of {_utc(x.event_time)}, {by_how_much(x.event_time, x.late)} "
            f"before the watermark of its stream, which stood at {_utc(x.late)} when it was "
            "admitted. That stays so, however often it is tried.",
            (f"entry {x.entry}",),
        )


def _again(x: Life) -> Statement:
    rows = (f"entry {x.entry}", f"publication {x.reverts}")
    who = next((a for a in x.actions if a.verb == "reset"), None)
    by = "" if who is None else f", asked by {who.actor} because: {who.because}"
    return Statement(
        f"It runs the change of publication {x.reverts} again and takes its place{by}.",
        rows if who is None else (*rows, f"action {who.id}"),
    )


def _told_again(x: Life) -> Iterator[Statement]:
    same = x.told_again - x.conflicts
    proof = (f"redelivery {x.entry}",)
    if same:
        last = "" if x.conflicts else f", last {_at(x.last_told_at)}"
        yield Statement(f"It was told again {_times(same)}{last}, and not done again.", proof)
    if x.conflicts:
        yield Statement(
            f"{_times(x.conflicts).capitalize()} the same key came with another payload: refused, "
            f"and kept. It was last told {_at(x.last_told_at)}.",
            proof + tuple(f"conflict {id}" for id, _ in x.conflict_rows),
        )


def _line(x: Life, line: JournalLine) -> Iterator[Statement]:
    proof = (line.pointer, *(() if line.commit is None else (f"commit {line.commit}",)))
    by = f" by {line.worker}" if line.worker else ""
    attempt = f"Attempt {line.attempt}{by} (fence {line.fence})"
    match line.outcome:
        case "finalized":
            yield from _finalized(x, line, attempt, proof)
        case "skipped":
            yield _skipped(x, line, attempt, proof)
        case "fenced":
            yield Statement(f"{attempt} had lost its lease and changed nothing.", proof)
        case "waiting" if "error" in line.facts:
            failed = f"failed with {line.reason}: {line.facts['error']}"
            yield Statement(f"{attempt} {failed}. It was to be retried.", proof)
        case "quarantined" if line.reason == "late":
            yield Statement(f"Its pipeline holds what is late: set aside {_at(line.at)}.", proof)
        case "quarantined" | "received" | "rolled_back" if line.steps[0][0] in DECIDED:
            yield _decided(x, line, proof)
        case "quarantined":
            failed = (
                f"failed with {line.reason}: {line.facts.get('error', 'no error was recorded')}"
            )
            yield Statement(f"{attempt} {failed}. It was rolled back and set aside.", proof)
        case _:
            why = line.reason or "no reason was recorded"
            yield Statement(f"{attempt} was given back ({why}) and not charged.", proof)


def _finalized(
    x: Life, line: JournalLine, attempt: str, proof: tuple[str, ...]
) -> Iterator[Statement]:
    p = x.publication
    if p is None:
        yield Statement(f"{attempt} finalized it {_at(line.at)}.", proof)
        return
    what = "a removal" if p.removed else f"sha256 {p.content}"
    after = "" if p.predecessor is None else f", after version {p.version - 1}"
    rows = (f"publication {x.entry}",)
    if p.predecessor is not None:
        rows += (f"publication {p.predecessor}",)
    yield Statement(
        f"{attempt} published version {p.version} of its uri{after}, {_at(line.at)}: {what}.",
        (*proof, *rows),
    )
    if x.deployment is not None:
        d = x.deployment
        yield Statement(
            f"That was code {d.code[:12]} of pipeline version {d.version}.", (f"deployment {d.id}",)
        )


def _skipped(x: Life, line: JournalLine, attempt: str, proof: tuple[str, ...]) -> Statement:
    then = x.current_then
    rows = proof if then is None else (*proof, f"publication {then.entry}")
    match line.reason:
        case "unchanged" if then is not None and not x.removed:
            why = f"its bytes are those of publication {then.entry}, sha256 {then.content}"
        case "unchanged" if x.removed:
            why = "it says that the object is gone, and nothing of it was published"
        case "superseded" if x.replay is not None:
            why = (
                f"publication {x.replay.replays}, which it replays, was no longer what readers saw"
            )
        case "stale" if x.reverts is not None:
            why = f"publication {x.reverts}, which it takes back, was no longer what readers saw"
        case "stale" if then is not None:
            why = f"publication {then.entry} is newer, {_compared(x)}"
        case "kept":
            why = "the object is gone at its source, and the pipeline keeps what was published"
        case _:
            why = f"the reason given is {line.reason}"
    return Statement(f"{attempt} skipped it, {_at(line.at)}: {why}.", rows)


def _compared(x: Life) -> str:
    then = x.current_then
    assert then is not None
    if x.sequence is not None and then.sequence is not None and alike(x.sequence, then.sequence):
        return f"with sequence {then.sequence} against {x.sequence}"
    if x.event_time != then.event_time:
        return f"with event time {_utc(then.event_time)} against {_utc(x.event_time)}"
    return "admitted later with the same event time"


def _decided(x: Life, line: JournalLine, proof: tuple[str, ...]) -> Statement:
    verb = line.reason or ""
    done = _DECISIONS.get(verb, f"decided: {verb}")
    # The action is written in the transaction of its line, a moment before it.
    made = [a for a in x.actions if a.verb == verb and a.at <= line.at]
    if not made:
        return Statement(f"An operator {done}, {_at(line.at)}.", proof)
    a = made[-1]
    return Statement(
        f"{a.actor} {done}, {_at(a.at)}, because: {a.because}", (*proof, f"action {a.id}")
    )


def _calls(x: Life) -> Iterator[Statement]:
    for call in x.calls:
        proof = (f"call {x.entry}/{call.name}",)
        if call.undone is not None:
            text = f"Its call {call.name} was undone {_at(call.undone)}."
        elif call.done is not None:
            text = f"Its call {call.name} was made {_at(call.done)} and is not made again."
        else:
            text = f"Its call {call.name} was begun {_at(call.begun)}; no answer is recorded."
        yield Statement(text, proof)


def _now(x: Life) -> Iterator[Statement]:
    match x.status:
        case "received":
            yield Statement("It is ready and waits for a worker.", (f"work {x.entry}",))
        case "claimed":
            yield Statement(f"{x.worker} is at work on it (fence {x.fence}).", (f"work {x.entry}",))
        case "waiting":
            yield Statement(f"It is retried {_at(x.due_at)}.", (f"work {x.entry}",))
        case "quarantined" if x.quarantine is not None:
            q = x.quarantine
            tried = f"after {q.attempts} attempt{'' if q.attempts == 1 else 's'}"
            tried = "without an attempt" if q.reason == "late" else tried
            yield Statement(
                f"It is in quarantine as {q.classed} ({q.reason}) {tried}, until somebody decides.",
                (f"quarantine {x.entry}",),
            )
        case "finalized" if x.publication is not None:
            p = x.publication
            if p.successor is None:
                yield Statement("It is what readers see now.", (f"publication {x.entry}",))
            else:
                yield Statement(
                    f"Version {p.version + 1} of its uri replaced it (entry {p.successor}).",
                    (f"publication {x.entry}", f"publication {p.successor}"),
                )
        case _:
            pass


def _at(time: datetime | None) -> str:
    return "at an unknown time" if time is None else f"at {_utc(time)}"


def _utc(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"
