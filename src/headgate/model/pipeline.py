"""The pipeline as its author declares it: sources, store, and what to do with each object.

    rain = hg.Pipeline("rain", sources=[hg.Directory("incoming/")], store="lake/", version="1")

    @rain.rows("reading", key=("station", "at"), schema=Reading)
    def readings(obj: hg.Object, run: hg.Run): ...

A declaration is a value: nothing runs here. What cannot work is refused when it is declared, with
the right way in the message.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

from headgate.errors import PipelineError

from .duration import seconds
from .identity import params_digest
from .ports import Source
from .rows import NewColumns, Table, declare
from .verdict import UPSTREAM, RetryPlan

Handler = TypeVar("Handler", bound=Callable[..., Any])
Removed = Literal["keep", "remove"]
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Step:
    """A handler and how to call it."""

    function: Callable[..., Any]
    name: str
    is_async: bool
    takes: int


@dataclass(frozen=True, slots=True)
class RowsStep:
    """A handler that yields rows of one table."""

    step: Step
    table: Table


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """A handler that runs SQL of its own in the finalize transaction."""

    step: Step
    independent: bool


@dataclass(eq=False)
class Pipeline:
    """What to do with each change of some sources. `version` is part of every effect's identity."""

    name: str
    sources: Sequence[Source] = ()
    store: str = "lake/"
    version: str = "1"
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retry: RetryPlan = UPSTREAM
    removed: Removed = "keep"
    conflict: Literal["error", "warn"] = "error"
    deadline: str | float | None = None
    mask: Callable[[str], str] | None = None
    validators: list[Step] = field(init=False, default_factory=list[Step])
    row_steps: list[RowsStep] = field(init=False, default_factory=list[RowsStep])
    transforms: list[Step] = field(init=False, default_factory=list[Step])
    applies: list[ApplyStep] = field(init=False, default_factory=list[ApplyStep])

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise PipelineError(
                f"Pipeline({self.name!r}): not a name",
                hint="use lower-case letters, digits, - and _, beginning with a letter",
            )
        if not isinstance(self.version, str) or not self.version:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PipelineError(f"Pipeline({self.name!r}): version must be text, as in version=\"1\"")
        if self.removed not in ("keep", "remove"):
            raise PipelineError(
                f"Pipeline({self.name!r}): removed={self.removed!r}", hint='use "keep" or "remove"'
            )
        self.sources = tuple(self.sources)
        names = [s.name for s in self.sources]
        if len(set(names)) < len(names):
            raise PipelineError(
                f"Pipeline({self.name!r}): two sources are called the same",
                hint="give one of them name=…",
            )
        try:
            self.params_digest = params_digest(self.params)
        except TypeError as error:
            raise PipelineError(f"Pipeline({self.name!r}): {error}") from None
        self.deadline_seconds = None if self.deadline is None else seconds(self.deadline)

    def validate(self, function: Handler) -> Handler:
        """Check an object before anything is made of it. What this raises is permanent, unless it
        is `hg.Retryable`. It must not depend on the network, the clock or chance."""
        self.validators.append(self._step(function, ("obj", "run"), least=1, kind="validate"))
        return function

    def rows(
        self,
        table: str,
        *,
        key: str | Iterable[str],
        schema: type,
        new_columns: NewColumns = "quarantine",
    ) -> Callable[[Handler], Handler]:
        """Rows this object stands for. A new version of the object replaces them."""
        declared = declare(table, key=key, schema=schema, new_columns=new_columns)
        if any(r.table.label == declared.label for r in self.row_steps):
            raise PipelineError(
                f"{self.name}: two handlers write rows of {declared.label}",
                hint="yield them from one handler",
            )

        def decorate(function: Handler) -> Handler:
            step = self._step(function, ("obj", "run"), least=1, kind=f"rows({table!r})")
            self.row_steps.append(RowsStep(step, declared))
            return function

        return decorate

    def transform(self, function: Handler) -> Handler:
        """Files to make of an object: return or yield `{"name": content}` or `hg.Artifact`."""
        self.transforms.append(self._step(function, ("obj", "run"), least=1, kind="transform"))
        return function

    def apply(self, function: Handler | None = None, *, independent: bool = False) -> Any:
        """SQL of your own in the finalize transaction.

        It may run several times per attempt: only its SQL counts. `independent=True` says that
        two objects never write the same rows, so that several connections may commit at once.
        """

        def decorate(function: Handler) -> Handler:
            step = self._step(function, ("tx", "obj", "run"), least=2, kind="apply")
            self.applies.append(ApplyStep(step, independent))
            return function

        return decorate if function is None else decorate(function)

    @property
    def independent(self) -> bool:
        """May several connections commit at once? Declared rows may; free SQL only if it says so."""
        return all(a.independent for a in self.applies)

    @property
    def is_async(self) -> bool:
        """Does any handler ahead of the commit need the event loop?"""
        steps = [*self.validators, *(r.step for r in self.row_steps), *self.transforms]
        return any(s.is_async for s in steps)

    def code_digest(self) -> bytes:
        """What code the handlers are: evidence for provenance, part of no key."""
        digest = hashlib.sha256()
        steps = [
            *self.validators,
            *(r.step for r in self.row_steps),
            *self.transforms,
            *(a.step for a in self.applies),
        ]
        for step in steps:
            code = getattr(step.function, "__code__", None)
            digest.update(step.name.encode() + b"\0")
            digest.update(code.co_code + repr(code.co_consts).encode() if code else b"")
        return digest.digest()

    def declared(self) -> dict[str, Any]:
        """The declaration as the ledger keeps it, for whoever has no user code at hand."""
        return {
            "retry": asdict(self.retry),
            "removed": self.removed,
            "deadline_seconds": self.deadline_seconds,
            "sources": [s.name for s in self.sources],
            "rows": [
                {"table": r.table.label, "key": list(r.table.key), "handler": r.step.name}
                for r in self.row_steps
            ],
            "transforms": [s.name for s in self.transforms],
            "applies": [a.step.name for a in self.applies],
            "validators": [s.name for s in self.validators],
        }

    def _step(
        self, function: Callable[..., Any], wanted: tuple[str, ...], *, least: int, kind: str
    ) -> Step:
        name = getattr(function, "__qualname__", repr(function))
        right = f"def {getattr(function, '__name__', 'handler')}({', '.join(wanted)})"
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise PipelineError(f"{self.name}.{kind}: {name} is not a function", hint=right) from None
        plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        required = [p for p in plain if p.default is p.empty]
        demanding = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if not least <= len(required) <= len(wanted) or demanding:
            given = f"({', '.join(str(p) for p in parameters)})"
            raise PipelineError(
                f"{self.name}.{kind}: {name}{given} has the wrong signature", hint=f"write: {right}"
            )
        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        return Step(function, name, is_async, len(required))
