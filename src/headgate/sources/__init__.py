"""Changes: what tells us that something is new, and lets us read it."""

from __future__ import annotations

from .directory import Directory
from .schedule import Schedule

__all__ = ["Directory", "Schedule"]
