"""`headgate` itself: the table of commands, and the options they share."""

from __future__ import annotations

import click

from headgate._version import __version__

from .asked import shared_options
from .lazy import LazyGroup, Place, Sections

SECTIONS: Sections = {
    "Start here": {
        "demo": Place("headgate.cli.demo:demo", "See it work: three consumers, one truth."),
        "init": Place("headgate.cli.init:init", "Write a small pipeline that runs."),
        "try": Place("headgate.cli.try_:try_", "Run the handlers on a file; commit nothing."),
        "prove": Place("headgate.cli.prove:prove", "Kill, repeat and race it; count the effects."),
        "up": Place("headgate.cli.up:up", "Run pipelines: watch, work, sweep."),
        "serve": Place("headgate.cli.serve:serve", "Take in webhooks and pushes."),
    },
    "Look": {
        "status": Place("headgate.cli.status:status", "What arrived, what became of it."),
        "top": Place("headgate.cli.top:top", "Everything at one look, live."),
        "slo": Place("headgate.cli.slo:slo", "What is promised, and how much of it is left."),
        "tail": Place("headgate.cli.tail:tail", "Follow changes as they end."),
        "entry": Place("headgate.cli.entry:entry", "List, show and explain entries."),
        "explain": Place("headgate.cli.entry:explain", "Why an entry ended as it did."),
        "run": Place("headgate.cli.run:run", "The files of one attempt."),
        "catalog": Place("headgate.cli.catalog:catalog", "The files beside the data; rebuild."),
        "envelope": Place("headgate.cli.envelope:envelope", "Read what a cloud or a queue said."),
        "verify": Place("headgate.cli.verify:verify", "Audit the ledger and the stores."),
        "reconcile": Place("headgate.cli.reconcile:reconcile", "Hold sources against the ledger."),
        "manifest": Place("headgate.cli.manifest:manifest", "Compare manifests."),
        "doctor": Place("headgate.cli.doctor:doctor", "Check that Headgate can work here."),
        "contract": Place("headgate.cli.contract:contract", "What a pipeline's sources must keep."),
    },
    "Decide": {
        "console": Place("headgate.cli.console:console", "A link to sign in to the console."),
        "publication": Place(
            "headgate.cli.publication:publication", "What readers see; take it back."
        ),
        "replay": Place("headgate.cli.replay:replay", "Run the past again; prove or publish it."),
        "quarantine": Place(
            "headgate.cli.quarantine:quarantine",
            "List, show, release and discard what was set aside.",
        ),
        "operation": Place(
            "headgate.cli.operation:operation", "List, show, explain and reset operations."
        ),
        "budget": Place("headgate.cli.budget:budget", "Whose attempts fail too often; go on."),
        "store": Place("headgate.cli.store:store", "What stores hold; remove what nothing needs."),
    },
    "Set up": {
        "config": Place("headgate.cli.config:config", "Show the settings and who set them."),
        "plugins": Place("headgate.cli.plugins:plugins", "List sources, sinks, stores of others."),
        "token": Place("headgate.cli.token:token", "Who may ask the server."),
        "db": Place("headgate.cli.db:db", "The ledger's database: migrate, url, psql."),
        "completion": Place("headgate.cli.completion:completion", "Print the shell's completion."),
    },
}

headgate = LazyGroup(
    name="headgate",
    sections=SECTIONS,
    help="At-least-once in, exactly-once effects out: ingestion on PostgreSQL.",
    params=shared_options(hidden=False),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    no_args_is_help=True,
)
click.version_option(__version__, message="headgate %(version)s")(headgate)
