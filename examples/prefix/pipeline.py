"""Everything under a prefix becomes rows of the table `reading`."""

import csv
import os
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TypedDict

import headgate as hg

# In production this is a bucket, as in "s3://weather/raw/". Here it is the folder beside us.
HERE = Path(__file__).resolve().parent
RAW = os.environ.get("RAW", f"{HERE.as_uri()}/raw/")

rain = hg.Pipeline(
    "rain", sources=[hg.Prefix(RAW, suffix=".csv", every="1s")], store="lake/", version="1"
)


class Reading(TypedDict):
    station: str
    at: datetime
    mm: Decimal


@rain.rows("reading", key=("station", "at"), schema=Reading)
def readings(obj: hg.Object) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(obj.lines())
