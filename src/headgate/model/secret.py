"""Secrets are handles: `hg.env("TOKEN")` says where a value is, not what it is.

The value is read when it is used, so a rotated one is picked up, and kept nowhere: it is in no
repr, no digest, no ledger and no error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from headgate.errors import ConfigError

LARGEST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret is kept. `reveal` reads it; nothing else does."""

    kind: Literal["env", "file"]
    place: str
    prefix: str = ""

    def reveal(self) -> str:
        """The value behind `prefix`. Raises `ConfigError` naming the place, never the value."""
        value = _from_env(self.place) if self.kind == "env" else _from_file(self.place)
        if not value:
            raise ConfigError(f"the secret {self} is empty", hint="Give it a value.")
        if not value.isprintable():
            hint = "Secrets are one line of text; encode anything else."
            raise ConfigError(f"the secret {self} has line breaks or control characters", hint=hint)
        return self.prefix + value

    def __repr__(self) -> str:
        return f"hg.{self.kind}({self.place!r})"

    __str__ = __repr__


def env(name: str, *, prefix: str = "") -> Secret:
    """The environment variable `name`, as in `hg.env("TOKEN", prefix="Bearer ")`."""
    return Secret("env", name, prefix)


def file(path: str | os.PathLike[str], *, prefix: str = "") -> Secret:
    """The one line of the file at `path`, as in `hg.file("/run/secrets/token")`."""
    return Secret("file", os.fspath(path), prefix)


def reveal(value: str | Secret) -> str:
    """The text to send: a plain one as it is, a secret as its value."""
    return value.reveal() if isinstance(value, Secret) else value


def _from_env(name: str) -> str:
    if (value := os.environ.get(name)) is None:
        raise ConfigError(f"the environment variable {name} is not set", hint=f"export {name}=…")
    return value


def _from_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as opened:
            value = opened.read(LARGEST_BYTES + 1)
    except UnicodeDecodeError:
        raise ConfigError(f"the secret in {path} is not text", hint="Encode it.") from None
    except OSError as error:
        hint = "Make the file readable to the user that runs Headgate."
        raise ConfigError(
            f"the secret {path} cannot be read: {error.strerror}", hint=hint
        ) from None
    if len(value) > LARGEST_BYTES:
        raise ConfigError(f"the secret in {path} is too large", hint="Is it the right file?")
    return value.removesuffix("\n").removesuffix("\r")
