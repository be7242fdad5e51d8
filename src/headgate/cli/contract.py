"""`headgate contract`: what a pipeline expects of what tells it about changes."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from headgate.errors import UsageError

from . import show
from .asked import Asked, Group, json_option, pass_asked

if TYPE_CHECKING:
    from headgate.model.contract import Contract
    from headgate.model.pipeline import Pipeline


@click.group(cls=Group)
def contract() -> None:
    """What a pipeline expects of its sources, and what it promises them."""


@contract.command("show")
@click.argument("target", metavar="TARGET")
@click.option("--pipeline", metavar="NAME", help="Only this one, if TARGET declares several.")
@click.option(
    "--queue-policy",
    is_flag=True,
    help="Print the settings its queue needs, as infra/terraform/messaging reads them.",
)
@json_option
@pass_asked
def show_contract(
    asked: Asked, *, target: str, pipeline: str | None, queue_policy: bool, as_json: bool
) -> None:
    """The ingestion contract of each source: event source, transport, delivery, requirements.

    TARGET is a file (rain.py), a folder of files, or package.module:pipeline. Everything is
    derived from the declaration; nothing is asked of the network.
    """
    from headgate.model.contract import contracts
    from headgate.model.queue_plan import queue_policy as policy_of
    from headgate.model.verdict import UPSTREAM
    from headgate.runtime.load import load

    deadline = asked.settings().deadline_seconds
    # What a file prints when it is imported must not get between a program and its JSON.
    with contextlib.redirect_stdout(sys.stderr):
        chosen = _chosen(load(target), pipeline, one=queue_policy)
    if queue_policy:
        (only,) = chosen
        show.as_json(policy_of(only.retry or UPSTREAM, only.deadline_seconds or deadline))
        return
    found = [(p, contracts(p, deadline)) for p in chosen]
    if as_json:
        show.as_json({"pipelines": [_plain(p, each) for p, each in found]})
        return
    for one, each in found:
        _show(one, each)


def _chosen(declared: list[Pipeline], name: str | None, *, one: bool) -> list[Pipeline]:
    names = ", ".join(p.name for p in declared)
    if name is not None:
        declared = [p for p in declared if p.name == name]
        if not declared:
            raise UsageError(f"there is no pipeline {name!r} there", hint=f"It has: {names}")
    if one and len(declared) > 1:
        raise UsageError(
            f"several pipelines are declared there: {names}", hint="Choose one: --pipeline NAME"
        )
    return declared


def _plain(pipeline: Pipeline, found: list[Contract]) -> dict[str, object]:
    return {
        "pipeline": pipeline.name,
        "version": pipeline.version,
        "ingestion_contract": [asdict(each) for each in found],
    }


def _show(pipeline: Pipeline, found: list[Contract]) -> None:
    show.out(show.heading(f"{pipeline.name}, version {pipeline.version}"), "")
    if not found:
        show.note("It declares no source: it takes what it is handed.")
    for each in found:
        show.out(show.indented(show.facts(_lines(each))), "")


def _lines(each: Contract) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [
        ("source", each.source),
        ("event source", each.event_source),
        ("transport", ", ".join(each.transport)),
        ("delivery", each.delivery_semantics),
        ("order", each.order),
        ("acknowledged", each.acknowledged),
    ]
    for n, wanted in enumerate(each.consumer_requirements):
        said = f"{wanted.requirement}: {wanted.by}"
        text = show.text(said, "none" if wanted.kept else "yellow")
        lines.append(("" if n else "requires", text))
    if (queue := each.queue) is not None:
        lines += [
            ("queue", f"visibility {queue.visibility_seconds} s"),
            ("", f"maxReceiveCount {queue.max_receive_count}"),
            ("", f"messages kept {queue.retention_seconds} s"),
            ("", f"dead letters kept {queue.dead_letter_retention_seconds} s"),
        ]
    return lines
