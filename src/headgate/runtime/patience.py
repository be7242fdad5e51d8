"""How long `--until-idle` waits for a source that cannot be read: as long as for a retry."""

from __future__ import annotations

import time

from headgate.errors import Unavailable


class Patience:
    """Runs out when something has been failing all the time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def wait(self, failing: str | None) -> None:
        """Raise `Unavailable` when it fails for too long by now; None is no failure."""
        now = time.monotonic()
        if failing is None:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since > self._seconds:
            raise Unavailable(
                f"gave up after {self._seconds:g} s: {failing}",
                hint="Bring the source back and start again; nothing was lost. "
                "--max-wait waits longer.",
            )
