"""Plugins: sources, sinks and stores that other distributions bring along, by entry points.

    # the pyproject.toml of a distribution
    [project.entry-points."headgate.stores"]
    dropbox = "headgate_dropbox:open_store"

A store is found by its scheme: `store="dropbox://lake"` calls what `dropbox` names. Sources and
sinks are imported by whoever uses them; their entry points say that they are there. One that
cannot be loaded is named, and costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, get_args

from headgate.errors import ConfigError

Kind = Literal["sources", "sinks", "stores"]
# What can be asked of each kind without making one.
_NEEDS: dict[Kind, tuple[str, ...]] = {
    "sources": ("check", "owns", "fetch"),
    "sinks": (),
    "stores": ("__call__",),
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """What one entry point says, and who says it."""

    kind: Kind
    name: str
    value: str
    distribution: str
    point: EntryPoint = field(repr=False, compare=False)

    def load(self) -> object:
        """Import it. Raises `ConfigError` that names the distribution."""
        try:
            loaded: object = self.point.load()
        except Exception as error:
            raise self._broken(f"{type(error).__name__}: {error}") from error
        except SystemExit as error:
            raise self._broken("it ends the process when it is imported") from error
        lacking = [name for name in _NEEDS[self.kind] if not hasattr(loaded, name)]
        if lacking or not callable(loaded):
            raise self._broken(f"it has no {lacking[0] if lacking else '__call__'}")
        return loaded

    def _broken(self, why: str) -> ConfigError:
        return ConfigError(
            f"plugin {self.name} ({self.kind}) of {self.distribution} cannot be used:"
            f" {self.value}: {why}",
            reason="plugin",
            hint=f"Upgrade or uninstall {self.distribution.partition(' ')[0]}.",
        )


def installed() -> list[Plugin]:
    """Every plugin there is, loaded or not, by kind and name."""
    return sorted(_found(), key=lambda p: (get_args(Kind).index(p.kind), p.name, p.distribution))


def load(kind: Kind, name: str) -> object | None:
    """What the plugin of this name is; None when there is none. Raises `ConfigError`."""
    claimed = [plugin for plugin in installed() if (plugin.kind, plugin.name) == (kind, name)]
    if not claimed:
        return None
    if len(claimed) > 1:
        both = " and ".join(plugin.distribution for plugin in claimed)
        raise ConfigError(
            f"{name} ({kind}) is claimed by {both}", reason="plugin", hint="Uninstall all but one."
        )
    return claimed[0].load()


def _found() -> Iterator[Plugin]:
    for kind in get_args(Kind):
        for point in entry_points(group=f"headgate.{kind}"):
            by = point.dist
            named = f"{by.name} {by.version}" if by is not None else "an unnamed distribution"
            yield Plugin(kind, point.name, point.value, named, point)
