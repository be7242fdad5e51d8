"""The numbers of infra/terraform/messaging, from the policy in code.

.venv/bin/python scripts/queue_policy.py > infra/terraform/messaging/policy.json
"""

from __future__ import annotations

import json

from headgate.model.queue_plan import queue_policy
from headgate.model.verdict import UPSTREAM
from headgate.settings import Settings


def policy() -> str:
    """The whole file, for the defaults."""
    return json.dumps(queue_policy(UPSTREAM, Settings.deadline_seconds), indent=2) + "\n"


if __name__ == "__main__":
    print(policy(), end="")
