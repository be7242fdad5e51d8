"""Redaction: what is left of a document for somebody who may not read restricted data.

They see that there is something, when, and what became of it; not where it came from, what it is
called, what was said about it, or any of its bytes. A field that is shown is one that is not listed
here, so the list names every field in which words of the data may stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headgate.ledger import label
from headgate.model.role import Principal
from headgate.pg import Database

RESTRICTED = "restricted"
HIDDEN = frozenset(
    {
        "adds", "artifacts", "assets", "blame", "blamed", "bbox", "checks", "content", "data",
        "delta", "delta_manifest_ref", "detail", "digest", "divergences", "document", "effect",
        "envelope", "error", "example_uri", "failures", "files", "footprint", "geometry", "item",
        "key", "links", "message", "metadata", "name_of_object", "object_identity", "occurrence",
        "params", "payload", "preview", "properties", "prov_ref", "openlineage_ref", "qa_summary",
        "removes", "replaces", "report", "rows", "sha256", "source_uri", "statements", "subject",
        "text", "trace", "uri", "uris", "version_id", "why",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Eyes:
    """What somebody may read: everything, or everything but what is restricted."""

    principal: Principal
    restricted: frozenset[str]

    def hides(self, pipeline: str | None) -> bool:
        """Is what belongs to this pipeline not for them to read?"""
        return pipeline in self.restricted

    def shown(self, pipeline: str | None, document: Any) -> Any:
        """The document of something that belongs to this pipeline, as they may read it."""
        return redacted(document) if self.hides(pipeline) else document

    def text(self, pipeline: str | None, text: str) -> str:
        """A text about something that belongs to this pipeline."""
        return RESTRICTED if text and self.hides(pipeline) else text

    async def searched(
        self, db: Database, pipelines: Sequence[str] | None, words: str | None
    ) -> list[str] | None:
        """The pipelines in which words of the data may be searched for by them; None is all.

        What answers a search for its words tells them, a letter at a time, however it is shown.
        """
        named = None if pipelines is None else list(pipelines)
        if words is None or not self.restricted:
            return named
        known = await label.names(db) if named is None else named
        return [name for name in known if not self.hides(name)]


async def eyes(db: Database, principal: Principal) -> Eyes:
    """What they may read, by what the pipelines declare now."""
    hidden = frozenset[str]() if principal.sees_restricted else await label.restricted(db)
    return Eyes(principal, hidden)


def redacted(document: Any) -> Any:
    """A copy in which every field that may hold words of the data says `restricted`."""
    if isinstance(document, Mapping):
        given = cast("Mapping[str, Any]", document)
        return {name: _field(name, value) for name, value in given.items()}
    if isinstance(document, Sequence) and not isinstance(document, str | bytes | bytearray):
        return [redacted(one) for one in cast("Sequence[Any]", document)]
    return document


def _field(name: str, value: Any) -> Any:
    # That there is nothing is no word of the data.
    return RESTRICTED if name in HIDDEN and value not in (None, "", [], {}) else redacted(value)
