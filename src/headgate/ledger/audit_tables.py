"""What holds between tables: nothing dangles, one head per uri, leases live, counters are right."""

from __future__ import annotations

from headgate.pg import Link, Record, queries

from .finding import Findings, Progress

Q = queries.load(__file__)


async def check(link: Link, findings: Findings, progress: Progress) -> None:
    """Each question is one statement over whole tables."""
    checks = (
        _dangling, _deployments, _heads, _leases, _subjects, _partitions, _counters, _redrives,
    )  # fmt: skip
    for done, one in enumerate(checks, 1):
        await one(link, findings)
        progress("tables", done, len(checks))
    sizes = await link.fetchrow(Q.sizes)
    assert sizes is not None
    for what, n in sizes.items():
        findings.count(what, n)


async def _dangling(link: Link, findings: Findings) -> None:
    for what, entry in await link.fetch(Q.dangling):
        findings.found(
            f"dangling_{what}", f"{what} {entry}: its pipeline has no such entry", entry=entry
        )


async def _deployments(link: Link, findings: Findings) -> None:
    for entry, deployment in await link.fetch(Q.undeployed):
        findings.found(
            "deployment_unknown",
            f"entry {entry} names deployment {deployment}, which its pipeline does not have",
            entry=entry,
        )


async def _heads(link: Link, findings: Findings) -> None:
    for uri, entry, heads in await link.fetch(Q.heads):
        if heads:
            text = f"{heads} publications of this uri are current"
            findings.found("head_twice", text, entry=entry, uri=uri)
        else:
            text = "this uri was published, and no publication of it is current"
            findings.found("head_missing", text, entry=entry, uri=uri)


async def _leases(link: Link, findings: Findings) -> None:
    for entry, worker, unknown, name, buried_at, alive_until in await link.fetch(Q.leases):
        if unknown:
            text = f"it is claimed by worker {worker}, which is not registered"
            findings.found("worker_unknown", text, entry=entry)
        elif buried_at is not None:
            text = f"it is claimed by worker {worker} ({name}), buried at {buried_at:%F %T}"
            findings.found("lease_of_buried", text, entry=entry)
        else:
            text = (
                f"it is claimed by worker {worker} ({name}), whose lease ended {alive_until:%F %T}"
            )
            findings.found("lease_expired", text, entry=entry)


async def _subjects(link: Link, findings: Findings) -> None:
    for subject, entry, entries in await link.fetch(Q.crowded):
        findings.found(
            "subject_claimed_twice",
            f"entries {', '.join(map(str, entries))} of subject {subject} are claimed at once",
            entry=entry,
        )


async def _partitions(link: Link, findings: Findings) -> None:
    for pipeline, part, busy, claimed in await link.fetch(Q.partitions):
        findings.found(
            "partition_miscounted",
            f"partition {part} of pipeline {pipeline} counts {busy} claimed entries of {claimed}",
        )


async def _redrives(link: Link, findings: Findings) -> None:
    for redrive, state, told, counted in await link.fetch(Q.redrives):
        findings.found(
            "redrive_miscounted", f"redrive {redrive} ({state}) says {told}, and its rows {counted}"
        )
    for entry, status in await link.fetch(Q.discards):
        findings.found(
            "discard_mismatch", f"it is kept as discarded, and it is {status}", entry=entry
        )


async def _counters(link: Link, findings: Findings) -> None:
    for row in await link.fetch(Q.counters):
        name = row["name"]
        if name is None:
            findings.found(
                "pipeline_unknown",
                f"{row['entries']} entries belong to pipeline {row['id']}, which is not registered",
                entry=row["one"],
            )
            name = f"pipeline {row['id']}"
        for text in _miscounted(row):
            findings.found("counter_mismatch", f"{name}: {text}")


def _miscounted(r: Record) -> list[str]:
    wrong: list[str] = []
    if r["admitted"] != r["entries"]:
        wrong.append(
            f"{r['admitted']} deliveries were admitted, and there are {r['entries']} entries"
        )
    if r["received"] != r["admitted"] + r["duplicate"] + r["conflict"]:
        wrong.append(
            f"{r['received']} deliveries were received, and {r['admitted']} admitted, "
            f"{r['duplicate']} duplicates and {r['conflict']} conflicts do not add up to them"
        )
    if not r["conflict"] == r["conflicts"] == r["refused"]:
        wrong.append(
            f"{r['conflict']} conflicts were counted, redelivery rows say {r['conflicts']}, "
            f"and {r['refused']} are kept"
        )
    if r["times"] > r["duplicate"] + r["conflict"]:
        wrong.append(
            f"redelivery rows say {r['times']} repeated deliveries, and only "
            f"{r['duplicate'] + r['conflict']} were counted"
        )
    return wrong
