"""Who is asking, and what of it they may see.

A dataset that is not public is for stewards. Others see that something happened, when and how it
ended; not what it is called, what it says or what it failed with.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from headgate.model.mask import mask_uri
from headgate.model.role import Principal, Role
from headgate.server.doors import Serving
from headgate.server.problem import Refusal

RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True)
class Sight:
    """What one person sees."""

    by: Principal
    restricted: frozenset[str]  # pipelines whose dataset is not public

    def hides(self, pipeline: str) -> bool:
        """Is what this pipeline does to be kept from them?"""
        return pipeline in self.restricted and not self.by.sees_restricted

    def text(self, pipeline: str, text: str | None) -> str | None:
        """An error, a preview, a name: or that it is restricted."""
        return RESTRICTED if text is not None and self.hides(pipeline) else text

    def uri(self, pipeline: str, uri: str) -> str:
        """A uri without passwords and signatures; or that it is restricted."""
        return RESTRICTED if self.hides(pipeline) else mask_uri(uri)

    def may(self, role: Role) -> bool:
        return self.by.may(role)

    def need(self, pipeline: str) -> None:
        """Raises `Refusal` for a pipeline that is none of theirs: for them it is not there."""
        if not self.by.sees(pipeline):
            raise Refusal("not_found")


async def sight(request: Request) -> Sight:
    """What whoever asks may see."""
    serving: Serving = request.app.state.serving
    by: Principal = getattr(request.state, "principal", HERE)
    return Sight(by, await restricted(serving))


HERE = Principal("this machine", "admin", None, "here", "here", None)


async def restricted(serving: Serving) -> frozenset[str]:
    return frozenset()
