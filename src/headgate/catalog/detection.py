"""What a source said about a change, in the words that catalogs know it by."""

from __future__ import annotations

from typing import Any

from headgate.model.facts import Facts

PREFIX = "kfm:change_detection:"
FIELDS = (
    "detector",
    "source",
    "provider",
    "kind",
    "event_id",
    "event_time",
    "received_at",
    "version_hint",
    "strength",
    "etag",
    "version_id",
    "sequence",
    "idempotency_key",
)


def change_detection(facts: Facts) -> dict[str, Any]:
    """What the source said about the change: of `FIELDS`, those it said."""
    shown = facts.shown
    return {PREFIX + field: shown[field] for field in FIELDS if shown.get(field) is not None}
