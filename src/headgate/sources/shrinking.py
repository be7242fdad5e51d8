"""When a list has become too short to be believed."""

from __future__ import annotations

# Fewer than these may go at once, whatever share of the list they are.
FEW = 10


def shrank(gone: int, live: int, limit: float) -> bool:
    """Are more gone than a list loses by itself? `limit` is the share that may go at once."""
    return gone >= FEW and gone > live * limit
