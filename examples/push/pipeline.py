"""Levels of rivers, pushed as CloudEvents: the newest of each gauge is its row in `level`."""

from typing import Any, TypedDict

import headgate as hg

levels = hg.Pipeline(
    "levels",
    sources=[hg.Push.cloudevents(secrets=hg.env("EVENTS_SECRET"))],
    store="lake/",
    version="1",
)


class Level(TypedDict):
    gauge: str
    centimetres: int


@levels.validate
def is_possible(obj: hg.Object) -> None:
    if obj.json()["centimetres"] < 0:
        raise hg.Permanent("a river below its bed", reason="impossible")


# An event's uri is made of its source and subject: those of one gauge are versions of one object.
@levels.rows("level", key="gauge", schema=Level)
def level(obj: hg.Object) -> list[dict[str, Any]]:
    return [{"gauge": obj.envelope.metadata["subject"], **obj.json()}]
