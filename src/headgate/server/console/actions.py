"""What the forms of the console do: the same actions as the API's, then back to a page.

A form is plain text: each field is what the action takes, by its name. Whoever presses twice is
told the same twice, and it is done once: the page has a key for what its forms ask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from headgate.errors import UsageError
from headgate.server import cookie
from headgate.server.actions import act, preview
from headgate.server.doors import Serving
from headgate.server.guard import FORM_BYTES
from headgate.server.limits import read_body
from headgate.server.problem import Refusal

from . import flash
from .asked import moment
from .page import asker, pages, path_of, with_query
from .words import many

router = pages("operator")

Fields = Mapping[str, list[str]]
# Fields that are about the form, not about the action.
_OURS = frozenset({cookie.FIELD, "key", "next", "because", "dry_run"})
_MANY = frozenset({"entries", "accept"})
_TIMES = frozenset({"start", "end", "since"})


@router.post("/console/actions/{name}")
async def do(request: Request, name: str) -> Response:
    """Do an action, and go back to the page it was asked on, which says what came of it."""
    serving: Serving = request.app.state.serving
    body = await read_body(request, FORM_BYTES)
    fields = parse_qs(body.decode(), keep_blank_values=True, errors="replace")
    back = path_of(_one(fields, "next"))
    by = asker(request)
    try:
        given = _given(fields)
        if _one(fields, "dry_run"):
            return _shown(name, fields, await preview(serving, by, name, given))
        why, key = _one(fields, "because"), _key(name, fields)
        done = await act(serving, by, name, given, because=why, request_key=key)
    except (Refusal, UsageError) as refusal:
        return _refused(back, refusal)
    said, where = _SAID[name](done.answer)
    response = RedirectResponse(where or back, 303)
    flash.say(response, said)
    return response


def _given(fields: Fields) -> dict[str, Any]:
    """What the action is told. An empty field says nothing."""
    given: dict[str, Any] = {}
    for name, values in fields.items():
        said = [value.strip() for value in values if value.strip()]
        if name in _OURS or not said:
            continue
        if name in _MANY:
            given[name] = said
        elif name in _TIMES:
            given[name] = moment(said[0])
        else:
            given[name] = said[0]
    return given


def _key(name: str, fields: Fields) -> str | None:
    """One for each thing that can be asked on a page."""
    if not (key := _one(fields, "key")):
        return None
    said = repr((key, name, sorted((n, v) for n, v in fields.items() if n != cookie.FIELD)))
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()


def _one(fields: Fields, name: str) -> str:
    return (fields.get(name) or [""])[0]


def _refused(back: str, refusal: Refusal | UsageError) -> Response:
    """Back to where it was asked, with the reason and the way out."""
    response = RedirectResponse(back, 303)
    if isinstance(refusal, UsageError):
        text, hint = f"{refusal}", refusal.hint or ""
    else:
        text, hint = refusal.detail or refusal.kind.title, refusal.hint or refusal.kind.hint
    flash.say(response, f"Nothing was done: {text}.", "bad", hint=hint)
    return response


def _shown(name: str, fields: Fields, answer: Mapping[str, Any]) -> Response:
    """What a replay would be about. The form comes back as it was filled in."""
    kept = {n: ",".join(values) for n, values in fields.items() if n not in _OURS}
    response = RedirectResponse(with_query("/replays", **kept) + "#start", 303)
    changed = sorted({one["aspect"] for one in answer["manifest"]["changed"]})
    hint = f"Another than it was: {', '.join(changed)}." if changed else ""
    what = "compared" if answer["mode"] == "verify" else "published anew"
    said = f"{many(answer['inputs'], 'input')} would be run again and {what}. Nothing was changed."
    flash.say(response, said, "warn" if changed else "good", hint=hint)
    return response


Answer = Mapping[str, Any]


def _named(entries: list[int]) -> str:
    some = ", ".join(str(entry) for entry in entries[:5])
    return f"{'Entry' if len(entries) == 1 else 'Entries'} {some}{'…' if len(entries) > 5 else ''}"


def _replayed(answer: Answer) -> tuple[str, str]:
    what = "verifies" if answer["mode"] == "verify" else "publishes anew"
    said = f"Replay {answer['replay']} {what} {many(answer['inputs'], 'input')}."
    return said, f"/replays/{answer['replay']}"


# What is said when it was done, and where to go then; nowhere else if that is empty.
_SAID: dict[str, Callable[[Answer], tuple[str, str]]] = {
    "release": lambda a: (f"{_named(a['entries'])} released: a worker takes it now.", ""),
    "discard": lambda a: (f"{_named(a['entries'])} discarded. It can be taken back.", ""),
    "undiscard": lambda a: (f"{_named(a['entries'])} in quarantine again.", ""),
    "redrive": lambda a: (
        f"Redrive {a['redrive']} is planned: {many(a['entries'], 'entry', 'entries')}.",
        f"/redrives/{a['redrive']}",
    ),
    "redrive_pause": lambda a: (f"Redrive {a['redrive']} is {a['state']}.", ""),
    "redrive_resume": lambda a: (f"Redrive {a['redrive']} goes on: it is {a['state']}.", ""),
    "redrive_stop": lambda a: (f"Redrive {a['redrive']} is {a['state']}.", ""),
    "revert": lambda a: (
        f"Entry {a['entry']} takes publication {a['reverts']} back: a worker does it now.",
        f"/entries/{a['entry']}",
    ),
    "reset": lambda a: (
        f"Entry {a['runs']} runs: a worker takes it now.",
        f"/entries/{a['runs']}",
    ),
    "replay": _replayed,
    "replay_stop": lambda a: (
        f"Replay {a['replay']} is stopped, after {a['done']:,} of {a['inputs']:,} inputs.",
        "",
    ),
    "budget_override": lambda a: (
        f"{a['pipeline']} goes on at the usual pace until {a['until']}.",
        f"/pipelines/{quote(a['pipeline'])}",
    ),
}
