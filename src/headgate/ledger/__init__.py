"""Memory: what arrived, what is to be done, what was done. Each `.py` sits beside its `.sql`.

Read the migrations first, then the `.sql` files: the rules are there; Python gives them types.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
MIGRATIONS = HERE / "migrations"
FUNCTIONS = sorted(HERE.glob("*.sql"))
