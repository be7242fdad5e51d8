"""CSV files in a bucket, announced through SNS to a standard queue, as rows of a table.

headgate up examples/sqs-standard/pipeline.py
"""

import csv
import os
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import TypedDict

import headgate as hg

rain = hg.Pipeline(
    "rain",
    sources=[
        hg.S3Events(
            queue=os.environ.get("RAIN_QUEUE", "rain-events"),
            dead_letters=os.environ.get("RAIN_DEAD_LETTERS", "rain-dead-letters"),
            suffix=".csv",
        )
    ],
    store=os.environ.get("RAIN_STORE", "lake/"),
    version="1",
)


class Reading(TypedDict):
    station: str
    at: datetime
    mm: Decimal


@rain.validate
def has_rows(obj: hg.Object) -> None:
    if obj.size == 0:
        raise hg.Permanent("empty file", reason="empty")


@rain.rows("reading", key=("station", "at"), schema=Reading)
def readings(obj: hg.Object, run: hg.Run) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(obj.lines())


# The same pipeline, admitted by a Lambda instead of `headgate up`: docs/how-to/run-in-aws-lambda.md
handler = hg.aws_lambda(rain)
