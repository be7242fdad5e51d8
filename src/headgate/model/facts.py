"""Facts: everything that is told about how one attempt ended.

The journal line of an attempt, with the rows it points to, is written in one transaction and never
changed. Facts are that line, read. Every record (STAC, DCAT, PROV, OpenLineage, the delta manifest,
the files of a run) is a pure rendering of facts, so records cannot disagree with the ledger or with
one another, and can be made again at any time, to the byte.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, Literal, cast

import orjson
from msgspec import structs

from .dataset import Dataset
from .energy import Used
from .envelope import Envelope
from .layout import PLAIN, Layout
from .mask import ITEMS, LENGTH, is_harmless, is_secret, mask, mask_uri
from .output import output

Outcome = Literal["finalized", "skipped", "quarantined", "waiting", "received", "fenced"]
BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class File:
    """Bytes that readers can have: a name, and what they are. `digest` is SHA-256, in hex.

    Two are the same file if their names and their bytes are; not everybody who names bytes knows
    more of them.
    """

    name: str
    digest: str
    size: int | None = field(compare=False)
    media_type: str = field(default=BYTES, compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """What one check of an object said. `examined` and `failed` count rows, where it counts any."""

    name: str
    passed: bool
    kind: str = "python"
    reason: str | None = None
    text: str | None = None
    examined: int | None = None
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A publication as a catalog shows it. Geometry is GeoJSON, or None where there is no place.

    `bbox` is west, south, east, north; west is greater than east where it crosses the antimeridian.
    `properties`, `assets`, `links` and `extensions` are what a handler added; the rest is found.
    An asset with the name of a file of the publication adds to what is said of that file.
    """

    id: str
    collection: str
    start: datetime
    end: datetime
    geometry: Mapping[str, Any] | None = None
    bbox: tuple[float, ...] | None = None
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    assets: Mapping[str, Any] = field(default_factory=dict[str, Any])
    links: tuple[Mapping[str, Any], ...] = ()
    extensions: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As the journal keeps it, without what goes without saying."""
        said: dict[str, Any] = {
            "id": self.id,
            "collection": self.collection,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
        }
        for name in _ADDED:
            if value := getattr(self, name):
                said[name] = value
        return said

    @classmethod
    def restore(cls, document: Mapping[str, Any]) -> Item:
        """The inverse of `document`."""
        given: dict[str, Any] = {
            **document,
            "start": datetime.fromisoformat(document["start"]),
            "end": datetime.fromisoformat(document["end"]),
        }
        for name in ("bbox", "links", "extensions"):
            if name in given:
                given[name] = tuple(given[name])
        return cls(**given)


_ADDED = ("geometry", "bbox", "properties", "assets", "links", "extensions")


@dataclass(frozen=True)
class Version:
    """One version of what a uri stands for: the object as it came, and what was made of it.

    `entry` is its publication's number, `run` the attempt that published it. `removed` says that
    the source took the object away; `retired`, that what was published stays readable all the same.
    `inline` says that the object came inside its message: the ledger has its bytes, not the store.
    """

    entry: int
    run: str
    number: int
    content: str
    size: int | None
    media_type: str
    artifacts: tuple[File, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    removed: bool = False
    retired: bool = False
    inline: bool = False

    @cached_property
    def files(self) -> tuple[File, ...]:
        """What readers can have of it: the object itself, as `data`, and its artifacts."""
        if self.removed and not self.retired:
            return ()
        return (File("data", self.content, self.size, self.media_type), *self.artifacts)


class Declared(dict[str, Any]):
    """What a pipeline declared when it ran. One serves all runs of a deployment.

    So what follows from it is worked out once, and not once per run.
    """

    @cached_property
    def policy(self) -> dict[str, Any]:
        """The plan of its runs: all of it, but for what they happened to run on."""
        return {name: value for name, value in self.items() if name != "environment"}

    @cached_property
    def policy_text(self) -> str:
        """The same as one line of JSON, sorted."""
        return orjson.dumps(self.policy, option=orjson.OPT_SORT_KEYS).decode()

    @cached_property
    def policy_digest(self) -> str:
        """SHA-256 of that line."""
        return hashlib.sha256(self.policy_text.encode()).hexdigest()

    @cached_property
    def dataset(self) -> Dataset | None:
        """The dataset, if it named one."""
        given = self.get("dataset")
        return None if given is None else Dataset.restore(given)


@dataclass(frozen=True)
class Facts:
    """How one attempt at one entry ended. Digests and keys are hex; times have a zone."""

    ledger: str
    store: str
    pipeline: str
    pipeline_version: str
    code: str
    params: str
    declared: Declared
    entry: int
    fence: int
    attempt: int
    outcome: Outcome
    reason: str | None
    at: datetime
    steps: tuple[tuple[str, int | None], ...]
    position: int
    pointer: str
    worker: str | None
    key: str
    envelope: Envelope
    content: str | None = None
    effect: str | None = None
    version: Version | None = None  # what it published
    before: Version | None = None  # what that replaced
    successor: tuple[int, str] | None = None  # what replaced it since: entry, run
    checks: tuple[Check, ...] = ()
    item: Item | None = None
    error: str | None = None
    error_class: str | None = None
    reverts: int | None = None  # the publication that this one takes back …
    restores: int | None = None  # … and the one whose state it brings back; None: nothing was there
    replays: int | None = None  # the publication that was run again
    seed: int | None = None  # of chance, where a handler asked for it
    because: str | None = None
    actor: str | None = None
    late: datetime | None = None  # the watermark that had passed it when it was admitted
    energy: Used | None = None  # what the run took, where that was asked for
    layout: Layout = PLAIN  # where the files of its store's catalog are

    @cached_property
    def run(self) -> str:
        """The run's name: one attempt of one entry."""
        return run_name(self.entry, self.fence)

    @cached_property
    def run_uuid(self) -> str:
        """The same run for those who want a UUID; it is the same each time it is asked for."""
        return str(uuid.uuid5(_namespace(self.ledger), self.run))

    @property
    def dataset(self) -> Dataset | None:
        """The dataset it belongs to, if its pipeline has one."""
        return self.declared.dataset

    @cached_property
    def shown(self) -> Mapping[str, Any]:
        """What came, as records show it: without its bytes, and without what must not be read."""
        told = self.envelope
        # Out of the ledger it comes so, and to make another one is to check all of it again.
        if told.data is not None or not _is_utc(told.event_time, told.received_at):
            told = structs.replace(
                told,
                data=None,
                event_time=told.event_time.astimezone(UTC),
                received_at=told.received_at.astimezone(UTC),
            )
        said = output(told)
        # The names are ours, but for those in the metadata. One look at all texts of a message is
        # enough for nearly every one of them.
        text = orjson.dumps(said).decode()
        if len(text) > LENGTH or not is_harmless(text) or not _is_plain(told.metadata):
            said = cast("dict[str, Any]", mask(said))
        return {**said, "uri": mask_uri(told.uri)}

    @cached_property
    def started_at(self) -> datetime:
        """When the attempt was claimed."""
        last = next((ms for _, ms in reversed(self.steps) if ms is not None), 0)
        return self.at - timedelta(milliseconds=last)


@lru_cache(16)
def _namespace(ledger: str) -> uuid.UUID:
    return uuid.UUID(ledger)


def _is_plain(metadata: Mapping[str, Any]) -> bool:
    """Has it a few values, none of them a secret by its name and none with names inside?"""
    return len(metadata) <= ITEMS and all(
        isinstance(value, str | int | float | None) and not is_secret(name)
        for name, value in metadata.items()
    )


def _is_utc(*times: datetime) -> bool:
    return all(time.tzinfo is UTC for time in times)


def run_name(entry: int, fence: int) -> str:
    """The name of one attempt, as in `runs/12-1/`."""
    return f"{entry}-{fence}"


def media_type(uri: str, content_type: str | None) -> str:
    """What an object is: as its source says, else by the ending of its name."""
    said = (content_type or "").strip().lower()
    return said if said and said != BYTES else TYPES.get(ending(uri), BYTES)


# A table of our own: Python's depends on the machine, and records must not.
TYPES = {
    ".csv": "text/csv",
    ".geojson": "application/geo+json",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".geoparquet": "application/vnd.apache.parquet",
    ".parquet": "application/vnd.apache.parquet",
    ".tif": "image/tiff; application=geotiff",
    ".tiff": "image/tiff; application=geotiff",
    ".txt": "text/plain",
    ".xml": "application/xml",
    ".zip": "application/zip",
}


def ending(uri: str) -> str:
    """The ending of an object's name, in small letters, as in `.csv`; empty when it has none."""
    name = uri.rpartition("/")[2].partition("?")[0].lower()
    return f".{name.rpartition('.')[2]}" if "." in name else ""
