"""What can go wrong, as a tree. A class is a fate: what is raised decides what happens next.

    HeadgateError
    ├── Retryable                   the attempt failed, another one may succeed
    │   ├── Unavailable             the other side is down: wait for it as long as the budget lasts
    │   │   ├── LedgerUnavailable   Postgres is away, restarting, or out of disk
    │   │   └── StoreUnavailable    the store is away or out of disk
    │   ├── ObjectChanged           the object changed while it was read
    │   ├── ObjectMissing           the object is not there (yet): a few tries, then quarantine
    │   ├── DeadlineExceeded        the handler ran longer than it may
    │   ├── InProgress              another caller is at this operation
    │   │   └── Escalated           … and by its policy a person has to look
    │   └── WorkerLost              the process that held the entry died or stopped beating
    ├── Permanent                   trying again cannot help: quarantine
    │   ├── SchemaError             the data is not what the schema says
    │   ├── PermissionDenied        we may not read it
    │   ├── Conflict                the same key arrived with another payload
    │   ├── LateEvent               it came after its stream's watermark had passed it, and is held
    │   ├── ConditionFailed         what an operation requires or ensures does not hold
    │   └── EffectRefused           the handler asked for something Headgate cannot keep
    ├── Fenced                      the lease was lost meanwhile: nothing was changed
    └── UsageError                  the operator or the pipeline's author asked wrongly (exit 2)
        ├── PipelineError           a pipeline file, a signature, a declaration
        ├── ConfigError             a setting
        └── LedgerRefused           a database that cannot be used as it is

Anything else a handler raises is retried like `Retryable`, up to the cap; anything else a
validator raises is `Permanent`.

Every class carries a stable `reason` (metric label, quarantine filter, name of the runbook) and a
`hint` that says what to do next.
"""

from __future__ import annotations


class HeadgateError(Exception):
    """Something Headgate can name. `reason` is stable; `hint` is for the person reading it."""

    reason: str = "error"
    hint: str = ""

    def __init__(
        self, message: str = "", *, reason: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message or (self.__doc__ or "").strip().partition("\n")[0])
        if reason is not None:
            self.reason = reason
        if hint is not None:
            self.hint = hint
        if self.hint:
            self.add_note(f"hint: {self.hint}")  # a traceback ends with it


class Retryable(HeadgateError):
    """The attempt failed; another one may succeed."""

    reason = "retryable"


class Unavailable(Retryable):
    """The other side is down or throttling. Retried at the cap's pace until the budget is spent.

    `delay_seconds` is how long it asked to be left alone, if it did (`Retry-After`).
    """

    reason = "unavailable"

    def __init__(
        self,
        message: str = "",
        *,
        upstream: str | None = None,
        reason: str | None = None,
        hint: str | None = None,
        delay_seconds: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, hint=hint)
        self.upstream = upstream
        self.delay_seconds = delay_seconds


class LedgerUnavailable(Unavailable):
    """Postgres cannot be reached, is restarting, or has no disk left."""

    reason = "ledger_unavailable"
    hint = "Bring the database back. Workers wait and resume by themselves; nothing is lost."


class StoreUnavailable(Unavailable):
    """The store cannot be reached or has no space left."""

    reason = "store_unavailable"
    hint = "Free space or bring the store back. The entry is tried again by itself."


class ObjectChanged(Retryable):
    """The object changed while it was being read."""

    reason = "object_changed"


class ObjectMissing(Retryable):
    """The object is not there."""

    reason = "missing_object"
    hint = "If the source brings it back: headgate quarantine release ENTRY --because ..."


class DeadlineExceeded(Retryable):
    """The handler ran longer than its deadline."""

    reason = "deadline_exceeded"
    hint = "Raise the pipeline's deadline, or make the handler's work smaller."


class InProgress(Retryable):
    """Another caller is at this operation. Nothing was done.

    `retry_after_seconds` is how long its lease lasts unless it is renewed; `holder` says who it is.
    """

    reason = "in_progress"
    hint = "Call again later. Who is at it: headgate operation list --status running"

    def __init__(
        self,
        message: str = "",
        *,
        retry_after_seconds: float = 1.0,
        holder: str = "",
        reason: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, reason=reason, hint=hint)
        self.retry_after_seconds = retry_after_seconds
        self.holder = holder


class Escalated(InProgress):
    """Another caller is at this operation, and a person has to look. Nothing was done."""

    reason = "escalated"
    hint = "See who holds it: headgate operation show KEY; then call again, or reset it."


class WorkerLost(Retryable):
    """The worker's process died or stopped beating while it held this entry."""

    reason = "worker_lost"
    hint = "Look for a crash of the handler itself: out of memory, a native library, os._exit."


class Permanent(HeadgateError):
    """Trying again cannot help. The entry goes to quarantine."""

    reason = "permanent"
    hint = "Fix the data or the handler, then: headgate quarantine release ENTRY --because ..."


class SchemaError(Permanent):
    """The data is not what its schema says."""

    reason = "schema"


class PermissionDenied(Permanent):
    """We may not read this object."""

    reason = "permission"
    hint = "Grant read access, then: headgate quarantine release ENTRY --because ..."


class Conflict(Permanent):
    """The same key arrived with another payload."""

    reason = "conflict"
    hint = "Ask the sender which one is right; send the other with an id of its own."


class LateEvent(Permanent):
    """The event came after its stream's watermark had passed it, and its pipeline holds such."""

    reason = "late"
    hint = "Let what is held run: headgate quarantine release --all --class late --because ..."


class ConditionFailed(Permanent):
    """What an operation requires before it begins, or ensures when it ends, does not hold."""

    reason = "condition"
    hint = "Make it hold, or correct the check. Nothing of this attempt was committed."


class EffectRefused(Permanent):
    """The handler asked for something Headgate cannot keep exactly-once."""

    reason = "effect_refused"


class Fenced(HeadgateError):
    """The lease was lost to another worker. Nothing of this attempt was kept."""

    reason = "fenced"
    hint = "Somebody else has the work now: call again for its result."


class UsageError(HeadgateError):
    """Asked wrongly. Nothing was changed."""

    reason = "usage"


class PipelineError(UsageError):
    """A pipeline file or declaration cannot be used."""

    reason = "pipeline"


class ConfigError(UsageError):
    """A setting has a value that cannot be used."""

    reason = "config"


class LedgerRefused(UsageError):
    """The database cannot be used as it is."""

    reason = "ledger_refused"
