"""The numbers of infra/terraform/messaging, from the policy in code.

.venv/bin/python scripts/queue_policy.py > infra/terraform/messaging/policy.json
"""

from __future__ import annotations

import json
from dataclasses import asdict

from headgate.model.queue_plan import lambda_receives, queue_plan
from headgate.model.verdict import UPSTREAM
from headgate.settings import Settings


def policy() -> str:
    """The whole file: a plan for each way to acknowledge, and what differs for a Lambda."""
    admitted, finalized = (
        queue_plan(UPSTREAM, ack=ack, deadline_seconds=Settings.deadline_seconds)
        for ack in ("admitted", "finalized")
    )
    receives = lambda_receives(UPSTREAM, admitted.visibility_seconds)
    document = {
        "admitted": asdict(admitted),
        "finalized": asdict(finalized),
        "lambda": asdict(admitted) | {"max_receive_count": receives},
    }
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    print(policy(), end="")
