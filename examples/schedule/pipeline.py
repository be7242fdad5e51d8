"""A row for every five minutes, whether or not anybody was there when they ended."""

from datetime import datetime
from typing import TypedDict

import headgate as hg

# After downtime, the last twelve periods that were missed are made up for.
clock = hg.Schedule("*/5 * * * *", zone="Europe/Vienna", missed="all", catch_up_limit=12)
reports = hg.Pipeline("reports", sources=[clock], store="lake/", version="1")


class Report(TypedDict):
    since: datetime
    until: datetime
    minutes: int


@reports.rows("report", key="until", schema=Report)
def report(obj: hg.Object):
    period = obj.json()
    since, until = map(datetime.fromisoformat, (period["start"], period["end"]))
    yield {"since": since, "until": until, "minutes": round((until - since).total_seconds() / 60)}
