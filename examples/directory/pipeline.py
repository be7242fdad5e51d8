"""Files that appear in a folder become rows of a table."""

import csv
from datetime import datetime
from decimal import Decimal
from typing import TypedDict

import headgate as hg

incoming = hg.Directory("incoming/", pattern="*.csv")
rain = hg.Pipeline("rain", sources=[incoming], store="lake/", version="1")


class Reading(TypedDict):
    station: str
    at: datetime
    mm: Decimal


@rain.validate
def has_rows(obj: hg.Object) -> None:
    if obj.size == 0:
        raise hg.Permanent("empty file")


@rain.rows("reading", key=("station", "at"), schema=Reading)
def readings(obj: hg.Object):
    yield from csv.DictReader(obj.lines())
