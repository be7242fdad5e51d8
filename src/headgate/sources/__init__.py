"""Changes: what tells us that something is new, and lets us read it."""

from __future__ import annotations

from .directory import Directory
from .http import Http
from .sse import ServerSentEvents

__all__ = ["Directory", "Http", "ServerSentEvents"]
