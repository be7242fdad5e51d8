"""Which entries of the quarantine are meant: the filters that its commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headgate.errors import UsageError

if TYPE_CHECKING:
    from headgate.ledger.redrive import Wanted

F = TypeVar("F", bound=Callable[..., Any])


def filters(function: F) -> F:
    """`--pipeline`, `--class`, `--reason`, `--since`."""
    for option, name, metavar, text in (
        ("--since", "since", "TIME", "Only what was set aside since: 2h, 3d, or 2026-01-05."),
        ("--reason", "reason", "NAME", "Only this reason, as in validation."),
        ("--class", "classed", "NAME", "Only this class, as in schema."),
        ("--pipeline", "pipeline", "NAME", "Only this pipeline."),
    ):
        function = click.option(option, name, metavar=metavar, help=text)(function)
    return function


def wanted(
    *, pipeline: str | None, classed: str | None, reason: str | None, since: str | None
) -> Wanted:
    """What the filters say."""
    from headgate.ledger.redrive import Wanted

    return Wanted(pipeline, classed, reason, None if since is None else moment(since))


def moment(text: str, *, now: datetime | None = None) -> datetime:
    """A time as people write it: so long ago, or a date, or a date and a time (UTC unless said)."""
    from headgate.model.duration import seconds

    try:
        said = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            ago = seconds(text, "--since")
        except UsageError as error:
            raise UsageError(
                f"--since is {text!r}, which is not a time",
                hint="Write how long ago (30m, 2h, 3d) or when (2026-01-05, 2026-01-05T14:00Z).",
            ) from error
        return (now or datetime.now(UTC)) - timedelta(seconds=ago)
    return said if said.tzinfo is not None else said.replace(tzinfo=UTC)
