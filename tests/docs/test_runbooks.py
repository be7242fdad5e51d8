"""The runbook of triggers and retries says what the policy does."""

from __future__ import annotations

from pathlib import Path

from scripts import retry_matrix

import headgate as hg
from headgate import errors
from headgate.model import verdict

PAGE = Path(__file__).parents[2] / "docs" / "runbooks" / "reliability" / "trigger-retry-matrix.md"


def test_the_runbook_is_up_to_date() -> None:
    """Who is on call reads the policy that runs."""
    assert PAGE.read_text() == retry_matrix.runbook(), (
        "run: .venv/bin/python scripts/retry_matrix.py > "
        "docs/runbooks/reliability/trigger-retry-matrix.md"
    )


def test_every_plan_and_every_error_is_in_the_runbook() -> None:
    """A plan or an error that is added has its line."""
    plans = [p for p in vars(verdict).values() if isinstance(p, hg.RetryPlan)]
    assert set(retry_matrix.PLANS) == set(plans)
    met = {
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, (errors.Retryable, errors.Permanent))
    }
    assert set(retry_matrix.TODO) == met
