"""The scripts of the demo's folder: two that everyone writes, and the one that knows the truth.

None of them imports Headgate. They are here to be read and run by hand.
"""

from __future__ import annotations

_SCRIPT = '''\
"""Rain gauges, the way everyone writes it first: {order}.

    {python} {name} < deliveries.txt

The readings go to one database, the names of finished files to another: the warehouse
and the job's own notebook. No transaction holds both.
"""

import csv
import sqlite3
import sys

warehouse = sqlite3.connect("naive/{stem}.db")
notebook = sqlite3.connect("naive/{stem}.done.db")
warehouse.execute("CREATE TABLE IF NOT EXISTS reading (station TEXT, at TEXT, mm TEXT)")
notebook.execute("CREATE TABLE IF NOT EXISTS done (file TEXT PRIMARY KEY)")


def is_done(file):
    return notebook.execute("SELECT 1 FROM done WHERE file = ?", [file]).fetchone()


def act(file):
    with open(f"incoming/{{file}}", newline="") as lines:
        rows = [(r["station"], r["at"], r["mm"]) for r in csv.DictReader(lines)]
    with warehouse:  # a transaction: all rows of the file, or none
        warehouse.executemany("INSERT INTO reading VALUES (?, ?, ?)", rows)


def mark(file):
    with notebook:
        notebook.execute("INSERT INTO done VALUES (?)", [file])


for line in sys.stdin:
    file = line.strip()
    if not is_done(file):
        {first}(file)
        {second}(file)
    print(file, flush=True)  # tells the queue: never again, please
'''

TRUTH = '''\
"""The true sum of a folder of rain gauges. It knows nothing of Headgate.

    {python} truth.py incoming             the sum in millimetres
    {python} truth.py incoming --each      a line for each file: name, rows, sum

A file with a line that is no reading counts for nothing.
"""

import csv
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path

total = Decimal(0)
for path in sorted(Path(sys.argv[1]).glob("*.csv")):
    with path.open(newline="") as lines:
        try:
            readings = [Decimal(row["mm"]) for row in csv.DictReader(lines)]
        except (InvalidOperation, KeyError, TypeError):
            continue
    total += sum(readings, Decimal(0))
    if "--each" in sys.argv:
        print(path.name, len(readings), sum(readings, Decimal(0)))
if "--each" not in sys.argv:
    print(total)
'''


def _script(order: str, stem: str, first: str, second: str) -> str:
    name = f"naive_{stem}.py"
    return _SCRIPT.format(
        order=order, name=name, stem=stem, first=first, second=second, python="python3"
    )


SCRIPTS = {
    "naive_act_then_mark.py": _script("act, then mark", "act_then_mark", "act", "mark"),
    "naive_mark_then_act.py": _script("mark, then act", "mark_then_act", "mark", "act"),
    "truth.py": TRUTH.format(python="python3"),
}
