"""Where a consumer of the demo stands against the truth."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

ZERO = Decimal(0)


@dataclass(slots=True)
class Standing:
    """What a consumer has in its table, and what it should have by what it has been told."""

    name: str
    sum: Decimal = ZERO
    truth: Decimal = ZERO
    rows: int = 0
    true_rows: int = 0
    delivered: int = 0
    kills: int = 0
    pending: int = 0

    @property
    def error(self) -> Decimal:
        return self.sum - self.truth
