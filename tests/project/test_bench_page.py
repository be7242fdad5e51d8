"""The performance page says what was measured last."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench.charts import charts
from bench.result import LATEST, Result

from bench import report

ROOT = Path(__file__).parents[2]
RENEW = "run: make bench-page"


def test_the_page_and_its_charts_say_what_the_last_run_said() -> None:
    """No figure is typed by hand, and none is from another run than its neighbour."""
    result = Result.load(LATEST)
    page = report.PAGE.read_text(encoding="utf-8")
    assert page == report.page(page, result), RENEW
    for name, svg in charts(result).items():
        assert (report.IMAGES / name).read_text(encoding="utf-8") == svg, RENEW
        assert f"(../images/{name})" in page


def test_the_last_run_is_whole_and_valid() -> None:
    """Everybody did the job, nothing was lost or done twice, and it tells nothing of its host."""
    kept = json.loads(LATEST.read_text(encoding="utf-8"))
    wanted = {"system", "workload", "events_per_s", "ratio", "lost", "double"}
    assert all(wanted <= row.keys() for row in kept["rows"])
    assert all(row["lost"] == row["double"] == 0 for row in kept["rows"])
    systems = {row["system"] for row in kept["rows"]}
    assert systems >= {"bare", "headgate", "pgqueuer", "procrastinate", "dbos"}
    assert kept["machine"].keys() == {
        "processor", "cores", "memory_gib", "system", "filesystem", "python", "postgres",
    }  # fmt: skip


def test_the_lock_of_the_others_is_exact_hashed_and_names_no_place() -> None:
    """What is measured beside Headgate is the same everywhere, from any mirror."""
    lock = (ROOT / "bench" / "requirements.lock").read_text(encoding="utf-8")
    pins = re.split(r"\n(?=\S)", lock.strip())
    assert all(re.match(r"[a-z0-9][a-z0-9.-]*==\S+", p) and "--hash=sha256:" in p for p in pins)
    assert not re.search(r"://|--(?:extra-)?index-url|--find-links", lock)
