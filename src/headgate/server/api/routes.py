"""The addresses under `/v1`."""

from __future__ import annotations

from . import changes

ROUTERS = (changes.router,)
