"""The reference page of the signals: python -m headgate.telemetry.reference"""

from __future__ import annotations

import sys

from headgate.model.signal import SIGNALS

from .tally import DISTINCT, bounds

INTRODUCTION = f"""\
# Signals

Everything Headgate shows about itself. `headgate up --metrics-port PORT` serves them to Prometheus
on `/metrics`, for all its processes together, on the loopback address unless `metrics_host` says
otherwise. With the setting `env`, every series carries it as a label. Who asks for OpenMetrics also
gets exemplars, where there are traces. By OTLP (`otlp_endpoint`) they have the same names, but for
`kfm_…_total`, which are `kfm.…` there. See [Traces and metrics](../how-to/traces-and-metrics.md).

`queue` is the source's name where there is no queue. A label has at most {DISTINCT} values; what
comes after that is counted as `other`.

Quality, in these words: the share of promotions with SHA-256 is `headgate_promotions_total` with
`hashed` of all, validation outcomes are `headgate_checks_total`, the dedupe rate is
`messages_duplicate_total` of `messages_received_total`, and replay success is `headgate_replays`
with the outcomes `same` and `published` of all that ended.
"""


def reference_markdown() -> str:
    """The whole page."""
    lines = ["| name | kind | labels | what it says |", "|---|---|---|---|"]
    for signal in SIGNALS:
        labels = ", ".join(f"`{label}`" for label in signal.labels) or "none"
        also = f" By OTLP: `{signal.dotted}`." if signal.dotted != signal.name else ""
        lines.append(f"| `{signal.name}` | {signal.kind} | {labels} | {signal.help}{also} |")
    buckets = ["## Buckets", "", "The upper bounds of the histograms:", ""]
    for signal in SIGNALS:
        if signal.kind == "histogram":
            buckets.append(f"- `{signal.name}`: {', '.join(f'{b:g}' for b in bounds(signal))}")
    return "\n".join([INTRODUCTION, *lines, "", *buckets, ""])


if __name__ == "__main__":
    sys.stdout.write(reference_markdown())
