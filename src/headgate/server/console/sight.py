"""Who is asking, and what of it they may see.

A dataset that is not public is for stewards. Others see that something happened, when and how it
ended; not what it is called, what it says or what it failed with.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from headgate.model.mask import mask_uri
from headgate.model.role import Principal
from headgate.server.doors import Serving, ledger
from headgate.server.problem import Refusal
from headgate.server.redact import RESTRICTED, Eyes, eyes

from .page import asker


@dataclass(frozen=True, slots=True)
class Sight:
    """What one person sees."""

    by: Principal
    eyes: Eyes

    def hides(self, pipeline: str) -> bool:
        """Is what this pipeline does to be kept from them?"""
        return self.eyes.hides(pipeline)

    def text(self, pipeline: str, text: str | None) -> str | None:
        """An error, a preview, a name: or that it is restricted."""
        return None if text is None else self.eyes.text(pipeline, text)

    def uri(self, pipeline: str, uri: str) -> str:
        """A uri without passwords and signatures; or that it is restricted."""
        return RESTRICTED if self.hides(pipeline) else mask_uri(uri)

    def need(self, pipeline: str) -> None:
        """Raises `Refusal` for a pipeline that is none of theirs: for them it is not there."""
        if not self.by.sees(pipeline):
            raise Refusal("not_found")


async def sight(request: Request) -> Sight:
    """What whoever asks may see."""
    serving: Serving = request.app.state.serving
    by = asker(request)
    async with ledger():
        return Sight(by, await eyes(serving.db, by))
