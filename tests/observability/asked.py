"""What dashboards and rules ask Prometheus for: metrics and labels, read out of the queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "observability"
DASHBOARDS = sorted((FOLDER / "grafana").glob("*.json"))
RULES = [FOLDER / "prometheus" / name for name in ("rules.yml", "alerts.yml")]

_STRING = re.compile(r'"[^"]*"')
_RANGE = re.compile(r"\[[^\]]*\]")
_GROUP = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?(?!\w|\s*\()")
_LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")
_WORDS = {"and", "or", "unless", "offset", "bool"}


@dataclass(frozen=True)
class Query:
    """One expression, where it is, and what it names."""

    where: str
    expr: str

    @property
    def metrics(self) -> dict[str, set[str]]:
        """The metrics it names, with the labels it selects them by."""
        text = _RANGE.sub("", _STRING.sub('""', self.expr))
        found: dict[str, set[str]] = {}
        for name, inner in _SELECTOR.findall(_GROUP.sub("", text)):
            if name not in _WORDS:
                found.setdefault(name, set()).update(_LABEL.findall(inner))
        return found

    @property
    def grouped(self) -> set[str]:
        """The labels that it groups by."""
        found = _GROUP.findall(_STRING.sub('""', self.expr))
        return {name.strip() for names in found for name in names.split(",") if name.strip()}


def panels() -> Iterator[Query]:
    """Every query of every dashboard."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield Query(f"{path.stem}: {panel['title']}", target["expr"])


def rules(kind: str) -> Iterator[dict[str, Any]]:
    """The rules of one kind: `record` or `alert`."""
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from (rule for rule in group["rules"] if kind in rule)


def queries() -> list[Query]:
    """Everything that is asked anywhere."""
    asked = [
        Query(rule[kind], rule["expr"]) for kind in ("record", "alert") for rule in rules(kind)
    ]
    return [*panels(), *asked]
