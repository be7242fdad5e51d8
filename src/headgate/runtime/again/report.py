"""What a verification found, so far. It is kept with the replay, page by page, and stays small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

SHOWN = 100


@dataclass(frozen=True, slots=True)
class Divergence:
    """What came out otherwise: of which publication, what of it, and what is to blame.

    `blame` names what changed: an input, a parameter, a seed, the code; or the line that reads the
    clock or draws a number.
    """

    publication: int
    uri: str
    what: str
    text: str
    blame: str


@dataclass(slots=True)
class Report:
    """`apart` counts what could not be compared, by why; `impure` are validators that are not."""

    inputs: int = 0
    same: int = 0
    diverged: int = 0
    outputs: int = 0
    divergences: list[Divergence] = field(default_factory=list[Divergence])
    apart: Counter[str] = field(default_factory=Counter[str])
    impure: list[str] = field(default_factory=list[str])
    blamed: Counter[str] = field(default_factory=Counter[str])

    @property
    def ok(self) -> bool:
        return not self.diverged and not self.impure

    def add(self, found: list[Divergence], outputs: int) -> None:
        """One more input was run again; so many of its outputs were compared."""
        self.inputs += 1
        self.outputs += outputs
        if not found:
            self.same += 1
            return
        self.diverged += 1
        for one in found:
            self.blamed[one.blame] += 1
        self.divergences += found[: max(0, SHOWN - len(self.divergences))]

    def suspect(self, validator: str) -> None:
        """A validator that reads the clock, draws numbers or speaks to somebody."""
        if validator not in self.impure and len(self.impure) < SHOWN:
            self.impure.append(validator)

    def plain(self) -> dict[str, Any]:
        """For programs, and for the ledger."""
        named = ("inputs", "same", "diverged", "outputs", "impure")
        return {
            **{name: getattr(self, name) for name in named},
            "divergences": [asdict(one) for one in self.divergences],
            "apart": dict(+self.apart),
            "blamed": dict(self.blamed),
        }

    def document(self) -> str:
        return orjson.dumps(self.plain()).decode()

    @classmethod
    def restore(cls, plain: Mapping[str, Any] | None) -> Report:
        """The inverse of `plain`; an empty one for None."""
        if plain is None:
            return cls()
        said = dict(plain)
        said["divergences"] = [Divergence(**one) for one in said["divergences"]]
        said["apart"], said["blamed"] = Counter(said["apart"]), Counter(said["blamed"])
        return cls(**said)
