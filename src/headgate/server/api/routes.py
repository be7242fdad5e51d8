"""The addresses under `/v1` where something is read."""

from __future__ import annotations

from . import again, changes, entries, publications, quarantine, runs, standing

ROUTERS = tuple(
    room.router for room in (changes, entries, publications, quarantine, again, standing, runs)
)
