"""The Grafana dashboards: python -m scripts.dashboards writes observability/grafana/*.json"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.panels import NOW, PIPELINE, RUNTIME, Panel

FOLDER = Path(__file__).parents[1] / "observability" / "grafana"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 24, 8

Rows = Mapping[str, Sequence[Panel]]
DASHBOARDS: dict[str, tuple[str, Rows]] = {
    "headgate-now": ("What is wrong first, then how everything flows.", NOW),
    "headgate-pipeline": ("One pipeline, or some.", PIPELINE),
    "headgate-runtime": ("Sources, stages, stores and operations.", RUNTIME),
}


def document(uid: str, about: str, rows: Rows) -> dict[str, Any]:
    """A dashboard as Grafana imports it."""
    return {
        "uid": uid,
        "title": uid.capitalize().replace("-", ": "),
        "description": about,
        "tags": ["headgate"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables(pick="$pipeline" in repr(rows))},
        "annotations": {"list": []},
        "links": [
            {"title": "Headgate", "type": "dashboards", "tags": ["headgate"], "asDropdown": True}
        ],
        "panels": list(_placed(rows)),
    }


def _variables(*, pick: bool) -> list[dict[str, Any]]:
    chosen: list[dict[str, Any]] = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    ]
    if pick:
        chosen.append(
            {
                "name": "pipeline",
                "label": "Pipeline",
                "type": "query",
                "datasource": SOURCE,
                "query": "label_values(headgate_backlog, pipeline)",
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            }
        )
    return chosen


def _placed(rows: Rows) -> Iterator[dict[str, Any]]:
    """Each row below its heading; three or four panels side by side."""
    number, y = 1, 0
    for title, panels in rows.items():
        at = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": at}
        number, y = number + 1, y + 1
        beside = 4 if len(panels) == 4 else 3
        for n, panel in enumerate(panels):
            x, below = n % beside * (WIDTH // beside), n // beside * HEIGHT
            at = {"x": x, "y": y + below, "w": WIDTH // beside, "h": HEIGHT}
            yield {"id": number, "gridPos": at, **_panel(panel)}
            number += 1
        y += -(-len(panels) // beside) * HEIGHT


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        defaults["custom"] = {"fillOpacity": 10, "stacking": stacking, "spanNulls": True}
    if panel.steps:
        steps = [{"value": value, "color": colour} for value, colour in panel.steps]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    asked = ({_legend(panel.query): panel.query} if panel.query else {}) | panel.more
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
        "targets": [
            {"refId": chr(ord("A") + n), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for n, (legend, expr) in enumerate(asked.items())
        ],
    }


def _legend(query: str) -> str:
    """What the query groups by, as Grafana writes it."""
    grouped = re.search(r"by \(([^)]*)\)", query)
    names = grouped[1].split(", ") if grouped else []
    return " ".join(f"{{{{{name}}}}}" for name in names if name != "le")


def files() -> dict[str, str]:
    """The text of each file by its name."""
    return {
        f"{uid}.json": json.dumps(document(uid, about, rows), indent=2, ensure_ascii=False) + "\n"
        for uid, (about, rows) in DASHBOARDS.items()
    }


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text)
