"""What `headgate init` writes: a pipeline that runs, its settings, and two files to try it on."""

from __future__ import annotations

RAIN = '''\
"""Rain gauges: files in incoming/ become rows of the table `reading`."""

import csv
from datetime import datetime
from decimal import Decimal
from typing import TypedDict

import headgate as hg

rain = hg.Pipeline("rain", sources=[hg.Directory("incoming/")], store="lake/", version="1")


class Reading(TypedDict):
    station: str
    at: datetime
    mm: Decimal


@rain.validate
def has_rows(obj: hg.Object) -> None:
    if obj.size == 0:
        raise hg.Permanent("empty file")


@rain.rows("reading", key=("station", "at"), schema=Reading)
def readings(obj: hg.Object, run: hg.Run):
    yield from csv.DictReader(obj.lines())
'''

SETTINGS = """\
# Settings of Headgate for this folder and those below it. Each one is also an
# environment variable, as in HEADGATE_WORKERS=4, which wins over this file.
# `headgate config show` says what counts here and where it came from.

# A PostgreSQL server of yours. Without one, a server is embedded under `home`.
# Keep passwords out of files: use HEADGATE_DATABASE_URL for those.
# database_url = "postgresql://headgate@db.example/ingest"

# home = ".headgate"
# workers = 2
# concurrency = 4
# deadline_seconds = "1h"
# log_format = "auto"
# metrics_port = 9464
"""

MONDAY = """\
station,at,mm
oslo-1,2026-01-05T06:00:00Z,1.2
oslo-1,2026-01-05T12:00:00Z,0.0
bergen-3,2026-01-05T06:00:00Z,14.8
bergen-3,2026-01-05T12:00:00Z,9.1
"""

TUESDAY = """\
station,at,mm
oslo-1,2026-01-06T06:00:00Z,0.4
oslo-1,2026-01-06T12:00:00Z,2.6
bergen-3,2026-01-06T06:00:00Z,11.0
"""

FILES = {
    "rain.py": RAIN,
    "headgate.toml": SETTINGS,
    "incoming/2026-01-05.csv": MONDAY,
    "incoming/2026-01-06.csv": TUESDAY,
}
