"""What a transform may give back, brought into one form: named artifacts, in chunks of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from headgate.errors import EffectRefused

from .object import Artifact

CHUNK = 1 << 20


def artifacts_of(made: Any, by: str) -> Iterator[Artifact]:
    """The artifacts that handler `by` returned or yields, one after the other."""
    match made:
        case None:
            return
        case Artifact():
            yield made
        case dict():
            for name, content in cast("dict[str, Any]", made).items():
                yield Artifact(str(name), content)
        case _ if hasattr(made, "__iter__") and not isinstance(made, (str, bytes)):
            for item in made:
                yield from artifacts_of(item, by)
        case _:
            raise EffectRefused(
                f"{by} returned a {type(made).__name__}",
                hint='return or yield {"name": bytes | path | stream} or hg.Artifact(...)',
            )


def chunks_of(artifact: Artifact, by: str) -> Iterator[bytes]:
    """Its bytes, in constant memory."""
    content = artifact.content
    match content:
        case bytes():
            yield content
        case str():
            yield content.encode()
        case Path():
            with content.open("rb") as stream:
                while chunk := stream.read(CHUNK):
                    yield chunk
        case _ if hasattr(content, "read"):
            while chunk := content.read(CHUNK):
                yield chunk
        case _:
            raise EffectRefused(
                f"{by}: artifact {artifact.name!r} is a {type(content).__name__}",
                hint="use bytes, text, a pathlib.Path or a binary stream",
            )
