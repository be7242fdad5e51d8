"""A logical operation: work that is done once per key, whoever calls it and however often (S2).

The key is made of the eight fields of the specification and of what the caller says makes one call
another. What is not given is derived from the operation's name; `explain` says which is which.

    key        256 bits: is this the same work? Two that collide would be one; none ever will
    lock key    64 bits: who waits for whom? Two that collide only wait for each other
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from headgate.errors import UsageError

from .duration import seconds
from .identity import canonical, params_digest, plain_digest
from .verdict import CRON, UPSTREAM, WEBHOOK, RetryPlan

InProgressPolicy = Literal["backoff", "skip", "escalate"]
ConflictMode = Literal["error", "warn"]
Trigger = Literal["cron", "webhook", "upstream-event"]

PLANS: Mapping[str, RetryPlan] = {p.trigger: p for p in (CRON, WEBHOOK, UPSTREAM)}
RESULT_BYTES = 256 * 1024
LEASE_SECONDS = 60.0
LOCK_TIMEOUT_SECONDS = 10.0
NAME_CHARACTERS = 200
_BUCKETS = {
    "hour": "%Y-%m-%dT%H",
    "day": "%Y-%m-%d",
    "week": "%G-W%V",
    "month": "%Y-%m",
    "year": "%Y",
}
_NO_PARAMS = params_digest({})
_EVERY = re.compile(r"\d+ ?(?:m|h|d|s)")


class Moment(StrEnum):
    """Where a process may die in an operation; tests make sure that it does no harm."""

    BEFORE_TAKE = "before:take"
    AFTER_TAKE = "after:take"
    REQUIRED = "required"
    OPENED = "opened"
    BEFORE_STEP = "before:step"
    MADE = "made"
    AFTER_STEP = "after:step"
    ENSURED = "ensured"
    KEPT = "kept"
    BEFORE_END = "before:end"
    RECORDED = "recorded"
    AFTER_END = "after:end"
    BEFORE_GIVE_BACK = "before:give_back"
    AFTER_GIVE_BACK = "after:give_back"


class Named(NamedTuple):
    """Which work it is: the fields of S2 § 3.1, and the caller's own key.

    `bucket` is set when the period is a length of time (`"day"`): which one it is in is then
    decided when the operation is first seen, and stays.
    """

    pipeline: str
    task: str
    dataset: str
    operation: str
    version: str
    own: Any = None
    checksum_in: str | None = None
    params: Mapping[str, Any] = MappingProxyType({})
    period: str | None = None
    bucket: str | None = None
    derived: tuple[str, ...] = ()
    own_hash: bytes = b""
    params_hash: bytes = b""

    def names(self) -> tuple[str | None, ...]:
        """All that is text in it, as the ledger keeps it."""
        return (
            self.pipeline,
            self.task,
            self.dataset,
            self.operation,
            self.version,
            self.checksum_in,
            self.period,
        )

    def key(self) -> bytes:
        """Is this the same work? The effect key of an operation, unique in its ledger (C2)."""
        return hashlib.sha256(
            b"headgate:operation:1\0" + canonical(self._parts(self.period))
        ).digest()

    def base(self) -> bytes:
        """The same for all periods."""
        return hashlib.sha256(
            b"headgate:operation-base:1\0" + canonical(self._parts(None))
        ).digest()

    def _parts(self, period: str | None) -> dict[str, str | None]:
        return {
            "pipeline": self.pipeline,
            "task": self.task,
            "dataset": self.dataset,
            "operation": self.operation,
            "version": self.version,
            "checksum_in": self.checksum_in,
            "params": self.params_hash.hex(),
            "period": period,
            "key": self.own_hash.hex(),
        }

    def lock(
        self, key: bytes, scope: Literal["dataset", "key"], shards: int, sovereign: bool
    ) -> int:
        """The 64-bit lock key: of dataset and operation, of one of their shards, or of the key."""
        if sovereign:
            return _hash64(["dataset", self.dataset])
        if scope == "key":
            return int.from_bytes(key[8:16], "big", signed=True)
        shard = int.from_bytes(key[:8], "big") % shards
        return _hash64(
            ["operation", self.dataset, self.operation, *([shard] if shards > 1 else [])]
        )


def _hash64(parts: Sequence[str | int]) -> int:
    digest = hashlib.sha256(b"headgate:lock:1\0" + canonical(parts)).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def named(
    name: str,
    *,
    key: Any,
    pipeline: str | None,
    task: str | None,
    dataset: str | None,
    operation: str | None,
    version: str | None,
    checksum_in: str | bytes | None,
    params: Mapping[str, Any] | None,
    period: str | date | None,
) -> Named:
    """What was given, completed. Raises `UsageError` for what cannot be a name or a key."""
    unsaid = (checksum_in is None, params is None, period is None, key is None)
    whole, derived = _names(name, pipeline, task, dataset, operation, version, unsaid)
    bucket = period if isinstance(period, str) and is_bucket(period) else None
    fixed = period.isoformat() if isinstance(period, date) else None if bucket else period
    try:
        return Named(
            *whole,
            key,
            checksum_in.hex() if isinstance(checksum_in, bytes) else checksum_in,
            params or {},
            fixed,
            bucket,
            derived,
            plain_digest(key, "key"),
            params_digest(params) if params else _NO_PARAMS,
        )
    except TypeError as error:
        raise UsageError(
            f"operation {name!r}: {error}",
            hint="A key is made of text, numbers, dates, lists and mappings.",
        ) from None


@lru_cache(maxsize=1024)
def _names(
    name: str,
    pipeline: str | None,
    task: str | None,
    dataset: str | None,
    operation: str | None,
    version: str | None,
    unsaid: tuple[bool, bool, bool, bool],
) -> tuple[tuple[str, str, str, str, str], tuple[str, ...]]:
    """The names of an operation, and which of them were derived: the same for all its calls."""
    given = {
        "pipeline": pipeline,
        "task": task,
        "dataset": dataset,
        "operation": operation,
        "version": version,
    }
    for what, value in {"name": name, **given}.items():
        if value is not None and not _is_name(value):
            raise UsageError(
                f"operation {name!r}: {what} is {value!r}",
                hint=f"Give text of up to {NAME_CHARACTERS} characters, without line breaks.",
            )
    whole = (pipeline or name, task or name, dataset or name, operation or "run", version or "1")
    others = zip(("checksum_in", "params", "period", "key"), unsaid, strict=True)
    derived = (*(w for w, v in given.items() if v is None), *(w for w, none in others if none))
    return whole, derived


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= NAME_CHARACTERS
        and value.isprintable()
        and value == value.strip()
    )


def is_bucket(period: str) -> bool:
    """Is it a length of time (`"day"`, `"15m"`), and not the name of one period?"""
    return period in _BUCKETS or _EVERY.fullmatch(period) is not None


def bucket_of(bucket: str, at: datetime) -> str:
    """The period that a moment is in, in UTC."""
    moment = at.astimezone(UTC)
    if (form := _BUCKETS.get(bucket)) is not None:
        return moment.strftime(form)
    every = seconds(bucket, "period")
    if every <= 0:
        raise UsageError(f"period is {bucket!r}", hint='As in "15m", "6h" or "day".')
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    begins = epoch + timedelta(seconds=(moment - epoch).total_seconds() // every * every)
    return begins.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Manner:
    """How an operation is done: whom it waits for, how long, and what is checked."""

    scope: Literal["dataset", "key"] = "key"
    shards: int = 1
    sovereign: bool = False
    in_progress: InProgressPolicy = "backoff"
    trigger: Trigger = "upstream-event"
    wait_seconds: float | None = None
    conflict: ConflictMode = "error"
    lease_seconds: float = LEASE_SECONDS
    deadline_seconds: float = 3600.0
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS
    result_bytes: int = RESULT_BYTES
    store: str | None = None
    requires: Sequence[Callable[..., Any]] = ()
    ensures: Sequence[Callable[..., Any]] = ()
    undo: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.shards < 1 or (self.sovereign and self.shards > 1):
            raise UsageError(
                f"operation: shards is {self.shards}",
                hint="At least one; a sovereign dataset is never sharded.",
            )
        for name, allowed in (
            ("in_progress", ("backoff", "skip", "escalate")),
            ("conflict", ("error", "warn")),
            ("trigger", tuple(PLANS)),
        ):
            if getattr(self, name) not in allowed:
                raise UsageError(
                    f"operation: {name} is {getattr(self, name)!r}",
                    hint=f"One of {', '.join(allowed)}.",
                )
        for name in ("lease_seconds", "deadline_seconds", "lock_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise UsageError(
                    f"operation: {name} is {getattr(self, name)}", hint="More than zero."
                )

    @property
    def plan(self) -> RetryPlan:
        """How often and how long a caller that is not served asks again (the retry matrix)."""
        return PLANS[self.trigger]

    @property
    def budget_seconds(self) -> float:
        """How long a caller waits for another one's work."""
        return self.plan.budget_seconds if self.wait_seconds is None else self.wait_seconds

    @property
    def alone(self) -> bool:
        """Do operations of this dataset wait for each other?"""
        return self.sovereign or self.scope == "dataset"


@dataclass(frozen=True, slots=True)
class Left:
    """A foreign call that an earlier attempt made and nobody took back."""

    name: str
    key: str
    result: Any
