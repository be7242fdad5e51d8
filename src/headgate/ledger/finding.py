"""What an audit finds: violations with a stable code, notes, and how much was looked at.

`HINTS` is the closed list of codes. A ledger that is broken everywhere would name a million
entries; of each code the first thousand are kept and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

MOST_PER_CODE = 1000

Progress = Callable[[str, int, int], None]
"""Called with what is looked at, how much of it is done, and how much there is."""

_RESTORE = (
    "Keep a copy of this database, find out who changed it, and restore the rows from a backup."
)
_WRITER = "Only Headgate may write to this schema: find what else does, and restore from a backup."
_BYTES = (
    "Restore the file from a backup of the store: the same bytes would be skipped as unchanged."
)
_REBUILD = "Make the files anew from the ledger: headgate catalog rebuild --runs"

HINTS: dict[str, str] = {
    "anchor_ahead": (
        "The ledger was truncated or an older backup restored: restore the newer one, "
        "or what happened since is unknown to it and will be done again."
    ),
    "anchor_mismatch": _RESTORE,
    "anchor_unreadable": "Restore it from a backup of the store, or delete it: sweeping makes it.",
    "attempt_missing": _RESTORE,
    "attempts_mismatch": _WRITER,
    "batch_incomplete": _RESTORE,
    "catalog_file_differs": _REBUILD,
    "catalog_file_missing": _REBUILD,
    "catalog_file_stray": _REBUILD,
    "chain_broken": _RESTORE,
    "commit_gap": _RESTORE,
    "content_mismatch": _RESTORE,
    "counter_mismatch": _WRITER,
    "dangling_call": _RESTORE,
    "dangling_conflict": _RESTORE,
    "dangling_discarded": _RESTORE,
    "dangling_journal": _RESTORE,
    "dangling_operation_call": _RESTORE,
    "dangling_operation_line": _RESTORE,
    "dangling_publication": _RESTORE,
    "dangling_quarantine": _RESTORE,
    "dangling_redelivery": _RESTORE,
    "dangling_redriven": _RESTORE,
    "dangling_work": _RESTORE,
    "deployment_unknown": _RESTORE,
    "discard_mismatch": _WRITER,
    "entry_in_two_states": _WRITER,
    "entry_lost": "Nobody will work on it. Restore its row of work or quarantine from a backup.",
    "fence_fell": _WRITER,
    "finalized_twice": "Was its effect applied twice? Find out who else writes to the journal.",
    "flow_mismatch": (
        "Figures and SLOs are wrong, and nothing else. Add up anew while nobody sweeps: TRUNCATE "
        "headgate.flow, flow_latency, flow_delivery, flow_seen and flow_total; UPDATE "
        "headgate.flow_mark SET pos = 0."
    ),
    "head_missing": _RESTORE,
    "head_twice": "Restore the unique index publication_head, and the rows from a backup.",
    "head_went_back": _WRITER,
    "item_left_behind": _WRITER,
    "item_mismatch": _WRITER,
    "item_missing": _WRITER,
    "journal_not_a_path": _RESTORE,
    "journal_uncommitted": _WRITER,
    "key_mismatch": _RESTORE,
    "late_miscounted": _WRITER,
    "late_unearned": _WRITER,
    "lease_expired": "Start a worker or `headgate up`: sweeping frees what the dead one held.",
    "lease_of_buried": (
        "Nothing frees it by itself. Run: UPDATE headgate.worker SET buried_at = NULL, "
        "buried_why = NULL for that worker; the next sweep buries it again, with its work. "
        "Please report this as a bug."
    ),
    "line_altered": _RESTORE,
    "link_broken": _RESTORE,
    "object_collected": (
        "Restore the file from a backup of the store. Then find out who changed the ledger, or "
        "please report this as a bug."
    ),
    "object_damaged": _BYTES,
    "object_missing": _BYTES,
    "object_not_kept": "A sweep may delete bytes that are in use: stop it, then restore the row.",
    "object_unknown": _RESTORE,
    "operation_call_mismatch": _RESTORE,
    "operation_done_twice": "Was its effect applied twice? Find out who else writes to its row.",
    "operation_line_altered": _RESTORE,
    "operation_line_missing": _RESTORE,
    "operation_lock_left": (
        "Its dataset waits until then. Sooner: headgate operation reset KEY --because …; or, if "
        "the operation is not there, delete the row from headgate.operation_lock."
    ),
    "operation_result_mismatch": (
        "Restore the row from a backup, or let it run again: "
        "headgate operation reset KEY --because …"
    ),
    "operation_status_mismatch": _WRITER,
    "operation_stuck": (
        "Call it again with the same key: what has answered is not called again. Or look what was "
        "done: headgate operation show KEY"
    ),
    "pipeline_unknown": _RESTORE,
    "publication_mismatch": _RESTORE,
    "publication_missing": _RESTORE,
    "publication_unearned": _WRITER,
    "redrive_miscounted": _WRITER,
    "rows_left_behind": "Delete these rows, or find what wrote them behind Headgate's back.",
    "rows_unowned": "Find who wrote them: a person, or another ledger with the same table.",
    "state_mismatch": _WRITER,
    "store_unreadable": "Run verify where the store can be read, with the rights to read it.",
    "subject_claimed_twice": _WRITER,
    "partition_miscounted": _WRITER,
    "version_broken": _RESTORE,
    "watermark_ahead": _WRITER,
    "worker_unknown": _RESTORE,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: a stable code, the entry it is about, what is wrong, and the way out."""

    code: str
    entry: int | None
    uri: str | None
    text: str
    hint: str


@dataclass(slots=True)
class Findings:
    """Gathered while an audit goes on."""

    checked: dict[str, int] = field(default_factory=dict[str, int])
    violations: list[Violation] = field(default_factory=list[Violation])
    notes: list[str] = field(default_factory=list[str])
    omitted: dict[str, int] = field(default_factory=dict[str, int])
    _seen: dict[str, int] = field(default_factory=dict[str, int])

    def found(
        self, code: str, text: str, *, entry: int | None = None, uri: str | None = None
    ) -> None:
        """A violation. `code` is one of `HINTS`."""
        seen = self._seen[code] = self._seen.get(code, 0) + 1
        if seen > MOST_PER_CODE:
            self.omitted[code] = seen - MOST_PER_CODE
        else:
            self.violations.append(Violation(code, entry, uri, text, HINTS[code]))

    def note(self, text: str) -> None:
        """Worth knowing, and no violation."""
        self.notes.append(text)

    def count(self, what: str, n: int) -> None:
        """So many rows of this kind were looked at."""
        self.checked[what] = self.checked.get(what, 0) + n


def no_progress(what: str, done: int, of: int) -> None:
    """For whoever does not watch."""
