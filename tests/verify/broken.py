"""Ledgers that somebody broke by hand, each with what verify must say about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.verify import damage
from tests.verify.world import World

LIVE = (
    "INSERT INTO headgate.worker (name, host, pid, alive_until)"
    " VALUES ('w', 'h', 1, now() + interval '{after}') RETURNING id;"
)
_CLAIM = (
    "WITH w AS (" + LIVE.rstrip(";") + ") UPDATE headgate.work SET worker = (SELECT id FROM w),"
    " fence = fence + 1, attempts = attempts + 1 WHERE id "
)
_REDRIVE = (
    "WITH r AS (INSERT INTO headgate.redrive (actor, because, asked, pipelines, canary, batch,"
    " stop_share, backlog, total, released, passed)"
    " VALUES ('me', 'why', 'null', '{{{{1}}}}', 0, 1, 0, 1, 1, {passed}, {passed}) RETURNING id)"
    " INSERT INTO headgate.redriven (redrive, n, entry, pipeline, fence, state)"
    " SELECT id, 1, {entry}, 1, 1, '{state}' FROM r"
)


@dataclass(frozen=True)
class Broken:
    """What somebody did to a ledger (`sql` or `by`), and what verify must say about it."""

    name: str
    codes: set[str]
    entry: str | None = None
    sql: str = ""
    by: Callable[[World], Awaitable[None]] | None = None
    deep: bool = False

    async def happen(self, world: World) -> None:
        if self.by is not None:
            await self.by(world)
        if self.sql:
            await world.db.execute(self.sql.format(**world.entries))


BROKEN = [
    Broken(
        "live work vanished",
        {"entry_lost"},
        "slow1",
        "DELETE FROM headgate.work WHERE id = {slow1}",
    ),
    Broken(
        "a finished entry is live work again",
        {"entry_in_two_states"},
        "b1",
        "INSERT INTO headgate.work (pipeline, id, subject)"
        " SELECT pipeline, id, 1 FROM headgate.entry WHERE id = {b1}",
    ),
    Broken(
        "an entry is live work and in quarantine",
        {"entry_in_two_states"},
        "bad1",
        "INSERT INTO headgate.work (pipeline, id, subject)"
        " SELECT pipeline, id, 1 FROM headgate.entry WHERE id = {bad1}",
    ),
    Broken(
        "a waiting entry has no time to be retried",
        {"state_mismatch"},
        "slow1",
        "UPDATE headgate.work SET due_at = NULL WHERE id = {slow1}",
    ),
    Broken(
        "a journal line skips a step",
        {"line_altered", "journal_not_a_path"},
        "b1",
        "UPDATE headgate.journal SET steps = 'claimed:0 fetched:1 finalized:2' WHERE entry = {b1}",
    ),
    Broken(
        "a journal line was reworded",
        {"line_altered"},
        "c2",
        "UPDATE headgate.journal SET reason = 'stale' WHERE entry = {c2}",
    ),
    Broken(
        "a journal line was reworded and its hash made to fit",
        {"chain_broken"},
        by=damage.rewrite_a_line_and_its_hash,
    ),
    Broken(
        "a journal line was deleted",
        {"batch_incomplete", "entry_lost"},
        "c2",
        "DELETE FROM headgate.journal WHERE entry = {c2}",
    ),
    Broken(
        "a commit row was deleted",
        {"commit_gap", "journal_uncommitted"},
        sql="DELETE FROM headgate.commit WHERE pos = 2",
    ),
    Broken(
        "the end of the journal was cut off",
        {"anchor_ahead", "entry_lost", "discard_mismatch", "flow_mismatch"},
        "junk1",
        "DELETE FROM headgate.journal WHERE batch ="
        " (SELECT batch FROM headgate.commit ORDER BY pos DESC LIMIT 1);"
        "DELETE FROM headgate.commit WHERE pos = (SELECT max(pos) FROM headgate.commit)",
    ),
    Broken(
        "figures were changed",
        {"flow_mismatch"},
        sql="UPDATE headgate.flow_total SET n = n - 1 WHERE kind = 'quarantined'",
    ),
    Broken(
        "an hour was forgotten",
        {"flow_mismatch"},
        sql="DELETE FROM headgate.flow WHERE minutes = 60",
    ),
    Broken(
        "deliveries were added up twice",
        {"flow_mismatch"},
        sql="UPDATE headgate.flow_delivery SET received = 2 * received",
    ),
    Broken(
        "the chain was written anew",
        {"chain_broken", "anchor_mismatch"},
        sql="UPDATE headgate.commit SET chain = sha256(chain)"
        " WHERE pos = (SELECT max(pos) FROM headgate.commit)",
    ),
    Broken("the anchor is another ledger's", {"anchor_mismatch"}, by=damage.anchor_another_chain),
    Broken("the anchor cannot be read", {"anchor_unreadable"}, by=damage.spoil_the_anchor),
    Broken(
        "a publication was deleted",
        {"publication_missing", "rows_unowned", "item_left_behind"},
        "b1",
        "DELETE FROM headgate.publication WHERE entry = {b1}",
    ),
    Broken(
        "what was never finalized is published",
        {"publication_unearned"},
        "bad1",
        "INSERT INTO headgate.publication"
        " (entry, pipeline, version, deployment, content, effect, uri)"
        " SELECT q.entry, q.pipeline, 1, q.deployment, q.content, q.content, e.uri"
        " FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry"
        " WHERE q.entry = {bad1}",
    ),
    Broken(
        "a publication speaks of another uri",
        {"publication_mismatch"},
        "b1",
        "UPDATE headgate.publication SET uri = 'file:///elsewhere' WHERE entry = {b1}",
    ),
    Broken(
        "a publication was changed",
        {"line_altered"},
        "b1",
        "UPDATE headgate.publication SET effect = sha256(effect) WHERE entry = {b1}",
    ),
    Broken(
        "two publications of a uri are current",
        {"head_twice", "link_broken", "item_missing"},
        "a2",
        "DROP INDEX headgate.publication_head;"
        "UPDATE headgate.publication SET successor = NULL WHERE entry = {a1}",
    ),
    Broken(
        "publications follow each other in a circle",
        {"head_missing", "link_broken", "rows_left_behind", "item_left_behind"},
        "a2",
        "UPDATE headgate.publication SET successor = {a1} WHERE entry = {a2}",
    ),
    Broken(
        "a version was left out",
        {"version_broken"},
        "a2",
        "UPDATE headgate.publication SET version = 3 WHERE entry = {a2}",
    ),
    Broken(
        "a head went back to an older change",
        {"head_went_back"},
        "a2",
        "UPDATE headgate.entry SET sequence = '~0' WHERE id = {a2}",
    ),
    Broken(
        "a publication names code that nobody deployed",
        {"deployment_unknown"},
        "b1",
        "UPDATE headgate.publication SET deployment = 99 WHERE entry = {b1}",
    ),
    Broken("an artifact's bytes are gone", {"object_missing"}, "a2", by=damage.delete_an_artifact),
    Broken("an artifact was cut short", {"object_damaged"}, "a2", by=damage.cut_an_artifact),
    Broken(
        "a byte of an artifact flipped", {"object_damaged"}, "a2", by=damage.flip_a_byte, deep=True
    ),
    Broken(
        "quarantined bytes are gone", {"object_missing"}, "bad1", by=damage.delete_quarantined_bytes
    ),
    Broken(
        "a published object may be collected",
        {"object_not_kept"},
        "b1",
        "UPDATE headgate.object SET state = 'staged' WHERE digest ="
        " (SELECT content FROM headgate.publication WHERE entry = {b1})",
    ),
    Broken(
        "a published object is unknown",
        {"object_unknown"},
        "b1",
        "DELETE FROM headgate.object WHERE digest ="
        " (SELECT content FROM headgate.publication WHERE entry = {b1})",
    ),
    Broken(
        "a published object was collected",
        {"object_collected"},
        "b1",
        "WITH gone AS (DELETE FROM headgate.object WHERE digest ="
        " (SELECT content FROM headgate.publication WHERE entry = {b1}) RETURNING *)"
        " INSERT INTO headgate.collected SELECT store, digest, size, now(), interval '90 days'"
        " FROM gone",
    ),
    Broken(
        "a replaced object was collected within the retention",
        {"object_collected"},
        "a1",
        "WITH gone AS (DELETE FROM headgate.object WHERE digest ="
        " (SELECT content FROM headgate.publication WHERE entry = {a1}) RETURNING *)"
        " INSERT INTO headgate.collected SELECT store, digest, size, now(), interval '90 days'"
        " FROM gone",
    ),
    Broken(
        "work of an entry that is not there",
        {"dangling_work"},
        sql="INSERT INTO headgate.work (pipeline, id, subject) VALUES (1, 999, 1)",
    ),
    Broken(
        "an entry was deleted",
        {"dangling_journal", "dangling_publication", "counter_mismatch"},
        "b1",
        "DELETE FROM headgate.entry WHERE id = {b1}",
    ),
    Broken(
        "redeliveries of an entry that is not there",
        {"dangling_redelivery"},
        sql="INSERT INTO headgate.redelivery VALUES (999, 1, 0, now())",
    ),
    Broken(
        "a conflict of an entry that is not there",
        {"dangling_conflict"},
        sql="INSERT INTO headgate.conflict (entry, fingerprint, envelope) VALUES (999, 0, '{{}}')",
    ),
    Broken(
        "a call of an entry that is not there",
        {"dangling_call"},
        sql="INSERT INTO headgate.call (entry, name, key) VALUES (999, 'post', 'k')",
    ),
    Broken(
        "an entry in quarantine that is not there",
        {"dangling_quarantine"},
        sql="UPDATE headgate.quarantine SET entry = 999 WHERE entry = {bad1};"
        "INSERT INTO headgate.quarantine SELECT {bad1}, pipeline, subject, fence, attempts, class,"
        " reason, error, preview, content, deployment, failures, first_at, last_at"
        " FROM headgate.quarantine WHERE entry = 999",
    ),
    Broken(
        "an entry belongs to no pipeline",
        {"pipeline_unknown", "publication_mismatch", "counter_mismatch"},
        "b1",
        "UPDATE headgate.entry SET pipeline = 9 WHERE id = {b1}",
    ),
    Broken(
        "a fence fell",
        {"fence_fell"},
        "slow1",
        "UPDATE headgate.work SET fence = 0, attempts = 0 WHERE id = {slow1}",
    ),
    Broken(
        "an attempt left no trace",
        {"attempt_missing"},
        "slow1",
        "UPDATE headgate.work SET fence = 5 WHERE id = {slow1}",
    ),
    Broken(
        "more attempts are charged than were made",
        {"attempts_mismatch"},
        "slow1",
        "UPDATE headgate.work SET attempts = 7 WHERE id = {slow1}",
    ),
    Broken(
        "a lease ended and nobody freed the work",
        {"lease_expired"},
        "slow1",
        _CLAIM.format(after="-1 second", slow1="{slow1}") + "= {slow1}",
    ),
    Broken(
        "a buried worker still holds work",
        {"lease_of_buried"},
        "slow1",
        "UPDATE headgate.work SET worker = (SELECT min(id) FROM headgate.worker"
        " WHERE buried_at IS NOT NULL), fence = fence + 1 WHERE id = {slow1}",
    ),
    Broken(
        "an unknown worker holds work",
        {"worker_unknown"},
        "slow1",
        "UPDATE headgate.work SET worker = 999, fence = fence + 1 WHERE id = {slow1}",
    ),
    Broken(
        "two entries of one subject are claimed",
        {"subject_claimed_twice"},
        sql="UPDATE headgate.work SET subject = 7;" + _CLAIM.format(after="1 hour") + "> 0",
    ),
    Broken(
        "a partition counts what nobody has claimed",
        {"partition_miscounted"},
        sql="UPDATE headgate.pipeline SET per_partition = 2;"
        "INSERT INTO headgate.part VALUES (1, 7, 3)",
    ),
    Broken(
        "an entry was marked late without a watermark",
        {"late_unearned"},
        "b1",
        "UPDATE headgate.entry SET late = event_time + interval '1h' WHERE id = {b1}",
    ),
    Broken(
        "an entry was marked late by what had not passed it",
        {"late_unearned"},
        "b1",
        "INSERT INTO headgate.watermark (pipeline, source, seen, watermark, late)"
        " SELECT pipeline, 'x', event_time, event_time, 1 FROM headgate.entry WHERE id = {b1};"
        "UPDATE headgate.entry SET late = event_time WHERE id = {b1}",
    ),
    Broken(
        "a watermark was moved ahead of all events",
        {"watermark_ahead"},
        sql="INSERT INTO headgate.watermark (pipeline, source, seen, watermark)"
        " SELECT pipeline, 'x', 'tomorrow', 'today' FROM headgate.entry WHERE id = {b1}",
    ),
    Broken(
        "a late event was counted that never came",
        {"late_miscounted"},
        sql="INSERT INTO headgate.watermark (pipeline, source, late)"
        " SELECT pipeline, 'x', 1 FROM headgate.entry WHERE id = {b1}",
    ),
    Broken(
        "something is held for being late that was not",
        {"late_unearned"},
        "bad1",
        "UPDATE headgate.quarantine SET class = 'late' WHERE entry = {bad1}",
    ),
    Broken(
        "an admission was counted twice",
        {"counter_mismatch"},
        sql="UPDATE headgate.tally SET admitted = admitted + 1, received = received + 1"
        " WHERE source = 'test'",
    ),
    Broken(
        "more was told again than was received",
        {"counter_mismatch"},
        sql="UPDATE headgate.redelivery SET times = 99",
    ),
    Broken(
        "a recorded conflict was deleted",
        {"counter_mismatch"},
        sql="DELETE FROM headgate.conflict",
    ),
    Broken(
        "rows of a replaced version are left",
        {"rows_left_behind"},
        "a1",
        "UPDATE reading SET _headgate_entry = {a1} WHERE station = 'a'",
    ),
    Broken(
        "rows of nobody's are left",
        {"rows_unowned"},
        "bad1",
        "UPDATE reading SET _headgate_entry = {bad1} WHERE station = 'b'",
    ),
    Broken(
        "a search cannot find what is published",
        {"item_missing"},
        "a2",
        "DELETE FROM headgate.item WHERE entry = {a2}",
    ),
    Broken(
        "an item of a replaced version is left",
        {"item_left_behind"},
        "a1",
        "INSERT INTO headgate.item SELECT {a1}, pipeline, collection, item, starts, ends, bbox"
        " FROM headgate.item WHERE entry = {a2}",
    ),
    Broken(
        "an item of what was never published",
        {"item_left_behind"},
        "bad1",
        "INSERT INTO headgate.item SELECT {bad1}, pipeline, collection, item, starts, ends, bbox"
        " FROM headgate.item WHERE entry = {a2}",
    ),
    Broken(
        "an item was moved",
        {"item_mismatch"},
        "a2",
        "UPDATE headgate.item SET bbox = box '(1,2),(3,4)' WHERE entry = {a2}",
    ),
    Broken(
        "a key does not belong to its envelope",
        {"key_mismatch"},
        "slow1",
        "UPDATE headgate.entry SET key = sha256(key) WHERE id = {slow1}",
        deep=True,
    ),
    Broken(
        "inline bytes were changed",
        {"key_mismatch", "content_mismatch"},
        "event1",
        "UPDATE headgate.entry SET data = 'x' WHERE id = {event1}",
        deep=True,
    ),
    Broken(
        "a line of the journal finalizes a second time",
        {"finalized_twice"},
        "b1",
        by=damage.finalize_again,
    ),
    Broken(
        "an entry that was discarded is in quarantine all the same",
        {"discard_mismatch"},
        "bad1",
        "INSERT INTO headgate.discarded (entry, pipeline, aside)"
        " SELECT entry, pipeline, '{{}}' FROM headgate.quarantine WHERE entry = {bad1}",
    ),
    Broken(
        "a discard of an entry that is not there",
        {"dangling_discarded"},
        sql="INSERT INTO headgate.discarded (entry, pipeline, aside) VALUES (999, 1, '{{}}')",
    ),
    Broken(
        "a redrive of an entry that is not there",
        {"dangling_redriven"},
        sql=_REDRIVE.format(passed=0, state="planned", entry="999"),
    ),
    Broken(
        "a redrive says that more has passed than has",
        {"redrive_miscounted"},
        sql=_REDRIVE.format(passed=1, state="planned", entry="{bad1}"),
    ),
    Broken(
        "a file of the catalog is gone",
        {"catalog_file_missing"},
        by=damage.delete_an_item_file,
        deep=True,
    ),
    Broken(
        "a file of the catalog was written to",
        {"catalog_file_differs"},
        by=damage.retouch_provenance,
        deep=True,
    ),
    Broken(
        "a file lies in the catalog that nobody knows",
        {"catalog_file_stray"},
        by=damage.leave_a_file_behind,
        deep=True,
    ),
]
