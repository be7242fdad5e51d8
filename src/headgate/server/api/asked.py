"""What a list is asked for: how much, from where, of whom. What is not understood is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.routing import APIRoute

from headgate.errors import UsageError
from headgate.ledger.changes import Cursor, Outcome
from headgate.server.access import BEARER
from headgate.server.problem import Refusal

NAME = r"^[a-z][a-z0-9_-]{0,62}$"
CURSOR = r"^\d{1,18}-\d{1,9}$"
ENTRY_MOST = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Pipelines = Annotated[
    list[Annotated[str, Query(pattern=NAME)]] | None,
    Query(alias="pipeline", description="Only of these pipelines.", max_length=100),
]
Outcomes = Annotated[
    list[Outcome] | None, Query(alias="outcome", description="Only what ended so.", max_length=4)
]
Order = Annotated[
    Literal["oldest", "newest"], Query(description="Which come first; `newest` goes backwards.")
]
After = Annotated[
    str | None,
    Query(
        pattern=CURSOR,
        description="Go on behind this place: the `cursor` of an answer or of a change.",
        examples=["41-2"],
    ),
]
LastEventId = Annotated[
    str | None,
    Header(
        pattern=CURSOR,
        description="The last id that was seen: what a client sends when it comes back.",
    ),
]
Uri = Annotated[
    str | None,
    Query(
        max_length=2000,
        pattern="^[^\\x00]*$",
        description="Only what is at a uri that begins with this.",
    ),
]
Below = Annotated[
    str | None,
    Query(
        alias="after",
        pattern=r"^\d{1,18}$",
        description="Go on behind this place: the `cursor` of an answer.",
        examples=["12"],
    ),
]
Pipeline = Annotated[
    str | None, Query(pattern=NAME, description="Only of this pipeline.", examples=["rain"])
]
PipelineName = Annotated[str, Path(pattern=NAME, description="Its name.", examples=["rain"])]
PlanId = Annotated[int, Path(ge=1, le=2**31 - 1, description="Its number.", examples=[1])]
ChangeId = Annotated[str, Path(pattern=CURSOR, description="The change's id.", examples=["41-2"])]
EntryId = Annotated[
    int, Path(ge=1, le=ENTRY_MOST, description="The entry's number.", examples=[12])
]


def below(text: str | None) -> int | None:
    """The number that a page of a list begins below."""
    return None if text is None else int(text)


def cursor(text: str | None) -> Cursor | None:
    """The place that is meant."""
    try:
        return None if text is None else Cursor.parse(text)
    except UsageError as error:
        raise Refusal("bad_request", str(error), hint=error.hint) from error


async def only_known(request: Request) -> None:
    """A dependency: a parameter that is not known is refused.

    An answer to another question than was asked looks like an answer.
    """
    route: APIRoute = request.scope["route"]
    known = {field.alias for field in route.dependant.query_params}
    for name in request.query_params:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise Refusal("bad_request", f"no parameter {name[:100]!r} here; there are: {there}")


def new_router(noun: str) -> APIRouter:
    """A router for the addresses of one noun under `/v1`."""
    return APIRouter(prefix="/v1", tags=[noun], dependencies=[Depends(BEARER), Depends(only_known)])
