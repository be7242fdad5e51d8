"""Roles: what somebody may do, each more than the one before.

scraper     reads /metrics and /readyz, and nothing else
viewer      reads everything that is not restricted
operator    also decides: release, discard, redrive, reset, verify, override a budget
steward     also takes back and publishes anew, and reads what is restricted
admin       also makes and ends tokens and sessions
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

Role = Literal["scraper", "viewer", "operator", "steward", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
# `here`: nobody said who they are, but they sit on this machine.
How = Literal["token", "session", "oidc", "here"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who proved who they are. `pipelines` is what they are limited to; None is all."""

    name: str
    role: Role
    pipelines: frozenset[str] | None
    how: How
    id: str
    expires_at: datetime | None

    def may(self, role: Role) -> bool:
        """Do they have this role, or one that includes it?"""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, pipeline: str) -> bool:
        """Is this pipeline one of theirs?"""
        return self.pipelines is None or pipeline in self.pipelines

    @property
    def sees_restricted(self) -> bool:
        """May they read data that its dataset declares not to be public?"""
        return self.may("steward")
