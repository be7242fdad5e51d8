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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from types import CodeType
from typing import Any, Literal, TypeVar, cast, overload

from headgate.errors import PipelineError

from .dataset import Dataset
from .duration import seconds
from .envelope import Envelope
from .identity import params_digest, partition_of
from .ports import Source
from .rows import NewColumns, Table, declare
from .verdict import RetryPlan

Handler = TypeVar("Handler", bound=Callable[..., Any])
Removed = Literal["keep", "retire", "remove"]
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
    """A handler that runs SQL of its own in the finalize transaction, and what takes that back."""

    step: Step
    independent: bool
    undo: Step | None = None


@dataclass(eq=False)
class Pipeline:
    """What to do with each change of some sources. `version` is part of every effect's identity."""

    name: str
    sources: Sequence[Source] = ()
    store: str = "lake/"
    version: str = "1"
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retry: RetryPlan | None = None  # None: by what triggers each entry
    removed: Removed = "keep"
    dataset: Dataset | str | None = None  # with one, what is published is catalogued
    deadline: str | float | None = None
    per_partition: int | None = None
    partition: Callable[[Envelope], str] | None = None
    coalesce: str | float | None = None
    retries_per_second: float = 100.0
    mask: Callable[[str], str] | None = None
    validators: list[Step] = field(init=False, default_factory=list[Step])
    row_steps: list[RowsStep] = field(init=False, default_factory=list[RowsStep])
    transforms: list[Step] = field(init=False, default_factory=list[Step])
    applies: list[ApplyStep] = field(init=False, default_factory=list[ApplyStep])

    def __post_init__(self) -> None:
        for what, given, right in chain(self._mistakes(), self._mistakes_of_pace()):
            raise PipelineError(f"Pipeline({self.name!r}): {what}={given!r}", hint=right)
        if isinstance(self.dataset, str):
            self.dataset = Dataset(self.dataset)
        given, self.sources = self.sources, ()
        for source in given:
            self.add_source(source)
        try:
            self.params_digest = params_digest(self.params)
        except TypeError as error:
            raise PipelineError(f"Pipeline({self.name!r}): {error}") from None
        self.deadline_seconds = None
        if self.deadline is not None:
            self.deadline_seconds = seconds(self.deadline, f"Pipeline({self.name!r}): deadline")
        self.coalesce_seconds = None
        if self.coalesce is not None:
            self.coalesce_seconds = seconds(self.coalesce, f"Pipeline({self.name!r}): coalesce")

    def _mistakes(self) -> Iterator[tuple[str, object, str]]:
        """What was given that cannot be used: its name, its value, and what to give instead."""
        name, version, store = _unsure(self.name), _unsure(self.version), _unsure(self.store)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            right = "use lower-case letters, digits, - and _, beginning with a letter"
            yield "name", name, right
        if not isinstance(version, str) or not version:
            yield "version", version, 'version is text, as in version="1"'
        if not isinstance(store, str) or not store:
            yield "store", store, 'store is text, as in store="lake/"'
        if not isinstance(_unsure(self.sources), Iterable):
            yield "sources", self.sources, "sources is a list, as in sources=[hg.Directory(...)]"
        if not isinstance(_unsure(self.params), Mapping):
            yield "params", self.params, 'params is a mapping, as in params={"limit": 3}'
        if not isinstance(_unsure(self.retry), RetryPlan | None):
            yield "retry", self.retry, "retry is an hg.RetryPlan"
        if self.removed not in ("keep", "retire", "remove"):
            yield "removed", self.removed, 'use "keep", "retire" or "remove"'
        if not isinstance(_unsure(self.dataset), Dataset | str | None):
            yield "dataset", self.dataset, 'use dataset="soil" or dataset=hg.Dataset("soil", ...)'
        if self.deadline == 0:
            yield (
                "deadline",
                self.deadline,
                "a handler needs some time; None is no limit of its own",
            )

    def add_source(self, source: Source) -> None:
        """Listen to one more source."""
        if any(known.name == source.name for known in self.sources):
            raise PipelineError(
                f"Pipeline({self.name!r}): two sources are called {source.name!r}",
                hint="give one of them name=…",
            )
        self.sources = (*self.sources, source)

    def _mistakes_of_pace(self) -> Iterator[tuple[str, object, str]]:
        above = "give a number above zero; None is no limit"
        most, rate = _unsure(self.per_partition), _unsure(self.retries_per_second)
        if most is not None and (not isinstance(most, int) or most < 1):
            yield "per_partition", most, above
        if self.coalesce == 0:
            yield "coalesce", self.coalesce, above
        if self.partition is not None and most is None:
            yield "partition", self.partition, "it serves per_partition=…: give both"
        if not isinstance(rate, int | float) or not 0 < rate <= 1e6:
            yield "retries_per_second", rate, "give a number above zero, up to a million"

    def validate(self, function: Handler) -> Handler:
        """Check an object before anything is made of it.

        What this raises is permanent, unless it is `hg.Retryable`. It must not depend on the
        network, the clock or chance.
        """
        step = self._step(function, ("obj", "run"), least=1, kind="validate", yields=False)
        self.validators.append(step)
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

    @overload
    def apply(self, function: Handler) -> Handler: ...
    @overload
    def apply(
        self, *, independent: bool = False, undo: Callable[..., Any] | None = None
    ) -> Callable[[Handler], Handler]: ...
    def apply(
        self,
        function: Any = None,
        *,
        independent: bool = False,
        undo: Callable[..., Any] | None = None,
    ) -> Any:
        """SQL of your own in the finalize transaction.

        It may run several times per attempt: only its SQL counts. `independent=True` says that
        two objects never write the same rows, so that several connections may commit at once.
        `undo` gets the version that is taken back, in the transaction that replaces, removes or
        reverts it. Without one, a publication cannot be reverted, and Headgate says so.
        """
        takes = ("tx", "obj", "run")

        def decorate(function: Handler) -> Handler:
            step = self._step(function, takes, least=2, kind="apply", yields=False)
            back = None
            if undo is not None:
                back = self._step(undo, takes, least=2, kind="apply(undo=…)", yields=False)
            self.applies.append(ApplyStep(step, independent, back))
            return function

        return decorate if function is None else decorate(function)

    @property
    def independent(self) -> bool:
        """May several connections commit at once? Rows may; free SQL only if it says so."""
        return all(a.independent for a in self.applies)

    @property
    def partition_of(self) -> Callable[[Envelope], str] | None:
        """How changes are told apart into partitions; None where there is no limit."""
        if self.per_partition is None:
            return None
        return partition_of if self.partition is None else self._partition

    def _partition(self, envelope: Envelope) -> str:
        # A function that fails must not keep a change out: it counts to its folder then.
        try:
            named = self.partition(envelope) if self.partition is not None else None
        except Exception:
            named = None
        return named if isinstance(named, str) and "\0" not in named else partition_of(envelope)

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
            *(a.undo for a in self.applies if a.undo is not None),
        ]
        for step in steps:
            digest.update(step.name.encode() + b"\0")
            digest.update(
                _code(getattr(_written(step.function), "__code__", None)).encode() + b"\0"
            )
        return digest.digest()

    def declared(self) -> dict[str, Any]:
        """The declaration as the ledger keeps it, for whoever has no user code at hand."""
        return {
            "retry": None if self.retry is None else asdict(self.retry),
            "removed": self.removed,
            "dataset": self.dataset.declared() if isinstance(self.dataset, Dataset) else None,
            "deadline_seconds": self.deadline_seconds,
            "per_partition": self.per_partition,
            "coalesce_seconds": self.coalesce_seconds,
            "retries_per_second": self.retries_per_second,
            "sources": [s.name for s in self.sources],
            "rows": [
                {
                    "table": r.table.label,
                    "key": list(r.table.key),
                    "handler": r.step.name,
                    "columns": [asdict(column) for column in r.table.columns],
                }
                for r in self.row_steps
            ],
            "transforms": [s.name for s in self.transforms],
            "applies": [
                {"handler": a.step.name, "undo": None if a.undo is None else a.undo.name}
                for a in self.applies
            ],
            "validators": [s.name for s in self.validators],
        }

    def _step(
        self,
        function: Callable[..., Any],
        wanted: tuple[str, ...],
        *,
        least: int,
        kind: str,
        yields: bool = True,
    ) -> Step:
        called = _called(function)
        name = getattr(called, "__qualname__", type(called).__qualname__)
        right = f"def {getattr(called, '__name__', 'handler')}({', '.join(wanted)})"
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise PipelineError(
                f"{self.name}.{kind}: {name} is not a function", hint=f"write: {right}"
            ) from None
        plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        required = [p for p in plain if p.default is p.empty]
        demanding = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if not least <= len(required) <= len(wanted) or demanding:
            given = f"({', '.join(str(p) for p in parameters)})"
            raise PipelineError(
                f"{self.name}.{kind}: {name}{given} has the wrong signature", hint=f"write: {right}"
            )
        generates = inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)
        if generates and not yields:
            raise PipelineError(
                f"{self.name}.{kind}: {name} yields, so calling it would run none of it",
                hint=f"write: {right}, without yield",
            )
        is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        return Step(function, name, is_async, len(required))


def _unsure(value: object) -> object:
    """Whatever the types say, an author may have given anything."""
    return value


def _called(function: Any) -> Any:
    """The function whose body runs: behind a `partial`, or an object that can be called."""
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    if inspect.isroutine(function) or inspect.isclass(function) or not callable(function):
        return function
    return cast("Any", type(function)).__call__


def _written(function: Any) -> Any:
    """The function as its author wrote it, under whatever decorators."""
    return inspect.unwrap(_called(function))


def _code(code: object) -> str:
    """What a function does, in a text that is the same in every process and however it is laid out.

    A code object's own text has its address and line in it, and a set's has an order by chance.
    """
    match code:
        case CodeType():
            names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
            consts = ",".join(_code(const) for const in code.co_consts)
            return f"code({code.co_code.hex()} {names!r} [{consts}])"
        case tuple():
            return f"({','.join(_code(item) for item in cast('tuple[object, ...]', code))})"
        case frozenset():
            items = sorted(_code(item) for item in cast("frozenset[object]", code))
            return f"{{{','.join(items)}}}"
        case _:
            return repr(code)
