"""An Airflow task that loads a day of sales once, however often it is run, cleared or backfilled.

    CREATE TABLE sales (day date NOT NULL, shop text NOT NULL, cents bigint NOT NULL);
    export HEADGATE_DATABASE_URL=postgresql://…    # where that table is; the same on every worker

Airflow decides when the task runs; Headgate decides whether there is still something to do. The
rows and the record of the load are one commit: a worker that is killed leaves neither or both.
"""

from __future__ import annotations

import csv
import os
import sys
from datetime import date
from pathlib import Path
from typing import Any

import headgate as hg

FOLDER = Path(os.environ.get("SALES_FOLDER", "sales"))


def load_sales(day: str) -> dict[str, Any]:
    """Load `sales/<day>.csv`. A second run of the same day returns the result of the first."""
    with hg.operation(
        "load_sales",
        key={"day": day},
        dataset="sales",  # loads of this dataset wait for each other
        trigger="cron",
        version="1",  # raise it, and every day is loaded again when its task runs again
    ) as op:
        if op.done:
            return op.result
        with (FOLDER / f"{day}.csv").open(newline="") as file:
            rows = [
                (date.fromisoformat(day), r["shop"], int(r["cents"])) for r in csv.DictReader(file)
            ]
        op.tx.execute("DELETE FROM sales WHERE day = $1", date.fromisoformat(day))
        op.tx.executemany("INSERT INTO sales (day, shop, cents) VALUES ($1, $2, $3)", rows)
        op.result = {"day": day, "rows": len(rows)}
    return op.result


try:
    from airflow.sdk import dag, task
except ImportError:  # without Airflow it is a function like any other
    dag = task = None

if dag and task:

    @dag(schedule="@daily", catchup=True, default_args={"retries": 5})
    def sales() -> None:
        # The logical date is the key, so a run that starts after midnight loads the right day.
        task(load_sales)(day="{{ ds }}")

    sales()
elif __name__ == "__main__":
    print(load_sales(sys.argv[1]))
