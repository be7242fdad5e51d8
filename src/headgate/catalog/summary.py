"""The summary of a run: what came, what became of it, what it replaced, how to undo it.

It is read by somebody who wants to know whether all is well, and what to type if it is not. Names
and texts of a source are set as code, so that nothing in them is taken for Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from headgate.model import delta
from headgate.model.facts import Facts, File, Version
from headgate.model.mask import printable
from headgate.model.watermark import by_how_much

from .render import moment

_TICKS = re.compile(r"`+")


def summary(facts: Facts) -> str:
    """A page of Markdown."""
    sections = (_came(facts), _became(facts), _replaced(facts), _checked(facts), _undo(facts))
    told = [f"# {_headline(facts)}", *("\n".join(s) for s in map(list, sections) if s)]
    return "\n\n".join(told) + "\n"


def _headline(facts: Facts) -> str:
    version = facts.version
    if version is None:
        ended = {
            "skipped": "changed nothing",
            "quarantined": "failed and was set aside",
            "waiting": "failed and will be tried again",
            "received": "was given back",
            "fenced": "came too late: another worker had taken over",
        }.get(facts.outcome, facts.outcome)
        return f"{facts.pipeline}: run {facts.run} {ended}"
    did = {
        "publish": "published",
        "retire": "retired the object in",
        "remove": "removed the object in",
        "revert": "took a publication back in",
        "replay": "ran a publication again in",
    }[delta.operation(facts)]
    return f"{facts.pipeline}: run {facts.run} {did} version {version.number}"


def _came(facts: Facts) -> Iterator[str]:
    shown, envelope = facts.shown, facts.envelope
    yield "## What came\n"
    yield f"- {code(shown['uri'])}"
    kind = "It was removed" if envelope.kind == "removed" else "It changed"
    yield f"- {kind} at {_at(envelope.event_time)}, by the clock of its {_CLOCKS[envelope.clock]}"
    yield f"- Heard of at {_at(envelope.received_at)}, by {code(shown['source'])}"
    if facts.late is not None:
        passed = by_how_much(envelope.event_time, facts.late)
        yield f"- Late: {passed} before the watermark, which stood at {_at(facts.late)}"
    if hint := shown.get("version_hint"):
        yield f"- Version hint: {code(hint)} ({envelope.strength})"
    if facts.content is not None and envelope.kind != "removed":
        yield f"- Its bytes: `sha256:{facts.content}`{_size(_input_size(facts))}"
    if facts.replays is not None:
        yield f"- A replay of publication {facts.replays}"
    if facts.reverts is not None:
        what = "Runs the change of" if facts.reverts == facts.restores else "A revert of"
        again = " again" if facts.reverts == facts.restores else ""
        by = code(facts.actor or "?")
        yield f"- {what} publication {facts.reverts}{again}, asked for by {by}"
        yield f"- Because: {code(facts.because or '?')}"


_CLOCKS = {
    "producer": "producer",
    "object": "store",
    "notification": "notification",
    "received": "receiver",
}


def _became(facts: Facts) -> Iterator[str]:
    yield "## What became of it\n"
    code_is = f", code `{facts.code[:12]}`" if facts.code else ""
    made = f", version {code(facts.pipeline_version)}{code_is}" if facts.pipeline_version else ""
    yield f"- Pipeline {code(facts.pipeline)}{made}, attempt {facts.attempt}{_worker(facts)}"
    yield f"- {_steps(facts)}"
    if facts.version is not None:
        yield f"- Publication {facts.entry}, at {_at(facts.at)}"
        yield from (f"- File {_file(file)}" for file in facts.version.files)
        yield from _rows(facts.version)
        if facts.version.retired:
            yield "- Its source has removed it; what was published stays readable"
        elif facts.version.removed:
            yield "- Readers see nothing of it any more"
    else:
        yield f"- Ended {facts.outcome}, at {_at(facts.at)}; readers see what they saw before"
        if facts.reason:
            yield f"- Reason: {code(facts.reason)}"
    if facts.error:
        yield f"- Error: {code(facts.error)}"


def _replaced(facts: Facts) -> Iterator[str]:
    version, before = facts.version, facts.before
    if version is None:
        return
    yield "## What it replaced\n"
    if before is None:
        yield "- Nothing: it is the first version"
        return
    yield f"- Version {before.number} (publication {before.entry}, run {before.run})"
    made = delta.between(before, version)
    yield from (f"- Added {_file(file)}" for file in made.adds)
    yield from (
        f"- Replaced {code(r.now.name)}: `{r.was.digest[:12]}` → `{r.now.digest[:12]}`"
        for r in made.replaces
    )
    yield from (f"- Removed {_file(file)}" for file in made.removes)
    if before.rows or version.rows:
        for table in sorted({*before.rows, *version.rows}):
            was, now = before.rows.get(table, 0), version.rows.get(table, 0)
            yield f"- Rows of {code(table)}: {was} → {now}"
    if not (made.adds or made.replaces or made.removes):
        yield "- The files are the same"


def _checked(facts: Facts) -> Iterator[str]:
    if not facts.checks:
        return
    yield "## What was checked\n"
    for check in facts.checks:
        counted = f", {check.failed or 0} of {check.examined} rows failed" if check.examined else ""
        why = f": {code(check.text or check.reason or '')}" if not check.passed else ""
        yield f"- {'Passed' if check.passed else 'FAILED'} {code(check.name)}{counted}{why}"


def _undo(facts: Facts) -> Iterator[str]:
    if facts.version is not None:
        # Whether something has replaced it by now is not told: a run's files never change.
        yield "## How to undo it\n"
        yield f"    headgate publication show {facts.entry}"
        yield f'    headgate publication revert {facts.entry} --because "…" --dry-run'
    elif facts.outcome == "quarantined":
        yield "## What to do\n"
        yield f"    headgate quarantine show {facts.entry}"
        yield f"    headgate quarantine release {facts.entry}"
    else:
        yield "## To know more\n"
        yield f"    headgate entry explain {facts.entry}"


def code(text: str) -> str:
    """A text as it is, on one line, whatever it holds."""
    if "`" not in text and text.isprintable() and text.strip() == text:
        return f"`{text}`"
    shown = printable(text).replace("\n", "\\n").replace("\t", "\\t")
    longest = max(map(len, _TICKS.findall(shown)), default=0)
    fence, space = "`" * (longest + 1), " " if longest or shown != shown.strip() else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _steps(facts: Facts) -> str:
    """The steps it took, with the milliseconds since the claim where a new one begins."""
    told = [f"{step} ({ms} ms)" if ms is not None else step for step, ms in facts.steps]
    return "Steps: " + " → ".join(told)


def _worker(facts: Facts) -> str:
    return f", by {code(facts.worker)}" if facts.worker else ""


def _rows(version: Version) -> Iterator[str]:
    if not version.removed:
        yield from (f"- {n} rows of {code(table)}" for table, n in sorted(version.rows.items()))


def _file(file: File) -> str:
    return f"{code(file.name)}: `sha256:{file.digest}`{_size(file.size)}, {code(file.media_type)}"


def _input_size(facts: Facts) -> int | None:
    return facts.version.size if facts.version is not None else facts.envelope.size


def _size(size: int | None) -> str:
    return "" if size is None else f", {size:,} bytes"


def _at(at: datetime) -> str:
    return f"{moment(at)[:19].replace('T', ' ')} UTC"
