"""An envelope as records show it: without its bytes, and without what must not be read."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from headgate.model.envelope import Envelope
from headgate.model.facts import Facts
from headgate.model.mask import mask, mask_uri
from headgate.model.output import output

from .render import moment, said


def envelope(facts: Facts) -> dict[str, Any]:
    """What came, as `schemas/events/object-change-event-v1.schema.json` has it; never its bytes."""
    bare: Envelope = msgspec.structs.replace(facts.envelope, data=None)
    shown = cast("dict[str, Any]", mask(output(bare)))
    shown["uri"] = mask_uri(bare.uri)
    shown["event_time"] = moment(bare.event_time)
    shown["received_at"] = moment(bare.received_at)
    return shown


def change_detection(facts: Facts) -> dict[str, Any]:
    """What the source said about the change, in the words of `kfm:change_detection:`."""
    shown = envelope(facts)
    told = said(**{field: shown.get(field) for field in FIELDS})
    return {f"kfm:change_detection:{field}": value for field, value in told.items()}


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
