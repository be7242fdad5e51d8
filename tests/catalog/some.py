"""Facts of every kind a record can be asked for, made by hand: no ledger is needed to render."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.model.envelope import Envelope
from headgate.model.facts import Check, Declared, Facts, File, Item, Version, run_name

LEDGER = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
STORE = "s3://lake/soil"
SECRET = "hunter2hunter2"
PARQUET = "application/vnd.apache.parquet"
BYTES = b"these are the bytes of the object and no record may hold them"
NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
DAY = datetime(2026, 2, 28, tzinfo=UTC)

DATASET: dict[str, Any] = {
    "name": "soil",
    "title": "Soil moisture",
    "description": "Readings of two stations",
    "license": "CC-BY-4.0",
    "license_url": None,
    "access": "restricted",
    "publisher": "The Soil Survey",
    "keywords": ["soil", "moisture"],
}
DECLARED: dict[str, Any] = {
    "retry": None,
    "removed": "remove",
    "dataset": DATASET,
    "sources": ["incoming"],
    "rows": [
        {
            "table": "reading",
            "key": ["station"],
            "handler": "readings",
            "columns": [
                {"name": "station", "type": "text", "nullable": False},
                {"name": "value", "type": "double precision", "nullable": True},
            ],
        }
    ],
    "transforms": ["tidy"],
    "applies": [],
    "validators": ["in_range"],
    "environment": {"headgate": "0.1.0", "python": "3.11.7"},
}
SQUARE = {
    "type": "Polygon",
    "coordinates": [[[5.0, 59.0], [6.0, 59.0], [6.0, 60.0], [5.0, 60.0], [5.0, 59.0]]],
}


def sha(text: str | bytes) -> str:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def envelope(uri: str = "s3://in/soil/oslo.csv", **more: Any) -> Envelope:
    given: dict[str, Any] = {
        "event_id": "e-1",
        "source": "s3:ObjectCreated:Put",
        "provider": "s3",
        "detector": "event",
        "uri": uri,
        "etag": "9b1f4a",
        "version_id": "v-1",
        "version_hint": "v-1",
        "strength": "immutable",
        "event_time": DAY,
        "received_at": NOW - timedelta(seconds=3),
        "sequence": "0001",
        "metadata": {"api_key": SECRET, "note": "hello"},
        "idempotency_key": sha(uri),
    }
    return Envelope(**{**given, **more})


def version(number: int = 1, entry: int = 1, **more: Any) -> Version:
    given: dict[str, Any] = {
        "entry": entry,
        "run": run_name(entry, 1),
        "number": number,
        "content": sha(BYTES + str(number).encode()),
        "size": 61,
        "media_type": "text/csv",
        "artifacts": (File("tidy.parquet", sha(f"t{number}"), 9, PARQUET),),
        "rows": {"reading": 2},
    }
    return Version(**{**given, **more})


def item(id: str = "oslo", **more: Any) -> Item:
    given: dict[str, Any] = {
        "collection": "soil",
        "start": DAY,
        "end": DAY,
        "geometry": SQUARE,
        "bbox": (5.0, 59.0, 6.0, 60.0),
    }
    return Item(id, **{**given, **more})


STEPS = (("claimed", 0), ("fetched", 4), ("validated", 6), ("staged", 9))
PUBLISHED = (*STEPS, ("promoted", 12), ("finalized", 12))
FAILED = (*STEPS[:2], ("failed", 7), ("rolled_back", 7), ("quarantined", 7))


def facts(shown: Version | None = None, before: Version | None = None, **more: Any) -> Facts:
    """A publication; the first one, unless it says otherwise."""
    shown = shown or version()
    told = more.pop("envelope", None) or envelope()
    given: dict[str, Any] = {
        "ledger": LEDGER,
        "store": STORE,
        "pipeline": "soil",
        "pipeline_version": "1",
        "code": sha("code"),
        "params": sha("params"),
        "declared": Declared(DECLARED),
        "entry": shown.entry,
        "fence": 1,
        "attempt": 1,
        "outcome": "finalized",
        "reason": None,
        "at": NOW + timedelta(minutes=shown.number),
        "steps": PUBLISHED,
        "position": shown.entry,
        "pointer": f"{shown.entry}/1",
        "worker": "work-1",
        "key": told.idempotency_key,
        "envelope": told,
        "content": shown.content,
        "effect": sha("effect"),
        "version": shown,
        "before": before,
        "checks": (Check("in_range", True, examined=2, failed=0),),
        "item": item(),
    }
    return Facts(**{**given, **more})


def unpublished(outcome: str, **more: Any) -> Facts:
    """An attempt that changed nothing for readers."""
    given: dict[str, Any] = {
        "outcome": outcome, "version": None, "item": None, "effect": None, "checks": (),
    }  # fmt: skip
    return replace(facts(), **{**given, **more})


REMOVAL = {"kind": "removed", "source": "s3:ObjectRemoved:Delete", "event_id": "e-9"}
REVERT = {"source": "headgate:revert", "detector": "log", "event_id": "revert-2-1"}


def removed(**more: Any) -> Facts:
    gone = version(2, 2, removed=True, artifacts=(), rows={}, content=version().content, **more)
    return facts(gone, version(), envelope=envelope(**REMOVAL))


FIRST = facts()
SECOND = facts(version(2, 2), version())
OLD = facts(successor=(2, "2-1"))
RETIRED = removed(retired=True)
REMOVED = removed()
REVERTED = facts(
    replace(version(), entry=3, run="3-1", number=3),
    version(2, 2),
    envelope=envelope(**REVERT),
    reverts=2,
    restores=1,
    because="the sensor was broken",
    actor="anna",
)
REVERTED_AGAIN = facts(
    replace(version(2), entry=4, run="4-1", number=4),
    replace(version(), entry=3, run="3-1", number=3),
    envelope=envelope(**{**REVERT, "event_id": "revert-3-1"}),
    reverts=3,
    restores=2,
    because="it was not",
    actor="anna",
)
TAKEN_BACK = facts(
    version(2, 2, removed=True, artifacts=(), rows={}),
    version(),
    envelope=envelope(**REVERT, kind="removed"),
    reverts=1,
    because="it should not have been there",
    actor="anna",
)
FAILURE = unpublished(
    "quarantined",
    reason="out_of_range",
    error="row 2: value is 900",
    error_class="schema",
    steps=FAILED,
    checks=(Check("in_range", False, reason="out_of_range", text="1 of 2", examined=2, failed=1),),
)
WAITING = unpublished(
    "waiting",
    reason="timeout",
    error="no answer",
    steps=(*STEPS[:1], ("failed", 9), ("waiting", 9)),
)
GIVEN_BACK = unpublished("received", reason="stopping", steps=(("claimed", 0), ("received", 2)))
FENCED = unpublished(
    "fenced",
    reason="fenced",
    steps=(("claimed", 0), ("fenced", 2)),
    pipeline_version="",
    code="",
    params="",
    declared=Declared(),
    worker=None,
    content=None,
)
SKIPPED = unpublished("skipped", reason="unchanged", steps=(*STEPS[:2], ("skipped", 5)))
INLINE = facts(
    version(inline=True, artifacts=(), size=12),
    envelope=envelope("webhook://orders/1", provider="webhook", detector="webhook"),
)
SCHEDULED = facts(
    envelope=envelope("cron://nightly/2026-02-28", provider="cron", detector="cron", etag=None)
)
NOWHERE = facts(item=item(geometry=None, bbox=None))
PERIOD = facts(item=item(end=NOW))
AMENDED = facts(
    item=item(
        properties={"title": "Oslo", "eo:cloud_cover": 3.5, "version": "no"},
        assets={
            "data": {"href": "elsewhere", "title": "As it came", "roles": ["source"]},
            "page": {"href": "https://example.org/oslo", "type": "text/html"},
        },
        links=({"rel": "about", "href": "https://example.org/about"},),
    )
)
ODD_URIS = (
    "s3://in/a%20b%25/caf%C3%A9.csv",
    "file:///data/with space/“quoted”.csv",
    "https://host/x?a=1&token=" + SECRET + "#part",
    "https://user:" + SECRET + "@host/%zz/<tag>",
    "http://[::1]:8000/a[1].csv",
    "refused://" + sha("x"),
    "no scheme at all \\ \" ' | ^ ` { }",
    "日本語/データ.csv",
    "abfss://c@acc.dfs.core.windows.net/k/%E2%82%AC",
)
ODD = tuple(
    facts(version(entry=n, artifacts=(File('ü "x" % <y>.csv', sha("u"), 3, "text/csv"),)),
          envelope=envelope(uri))
    for n, uri in enumerate(ODD_URIS, 10)
)  # fmt: skip

PUBLICATIONS = {
    "first": FIRST,
    "second": SECOND,
    "retired": RETIRED,
    "revert": REVERTED,
    "revert of a revert": REVERTED_AGAIN,
    "inline": INLINE,
    "scheduled": SCHEDULED,
    "nowhere": NOWHERE,
    "period": PERIOD,
    "amended": AMENDED,
    **{f"odd {n}": odd for n, odd in enumerate(ODD)},
}
GONE = {"removed": REMOVED, "taken back": TAKEN_BACK}
OTHERS = {
    "failure": FAILURE,
    "waiting": WAITING,
    "given back": GIVEN_BACK,
    "fenced": FENCED,
    "skipped": SKIPPED,
}
EVERY = {**PUBLICATIONS, **GONE, **OTHERS}
PARTS = (
    facts(envelope=envelope("s3://in/scene/b02.tif"), item=item("scene")),
    facts(
        version(3, 7, artifacts=()),
        version(2, 5),
        envelope=envelope("s3://in/scene/b03.tif"),
        item=item("scene", end=NOW, geometry={"type": "Point", "coordinates": [9.0, 61.0]},
                  bbox=(9.0, 61.0, 9.0, 61.0)),
    ),
)  # fmt: skip
