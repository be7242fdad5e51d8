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
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, overload

from headgate.errors import PipelineError

from .code import code_of
from .dataset import Dataset, is_name
from .duration import seconds
from .envelope import Envelope
from .identity import params_digest, partition_of
from .object import Object
from .ports import Source
from .rows import NewColumns, declare
from .step import ApplyStep, ItemStep, RowsStep, Step, content_of, first_annotation, step_of
from .validation.contract import contract_of
from .verdict import RetryPlan
from .watermark import EventTime

Handler = TypeVar("Handler", bound=Callable[..., Any])
Checking = TypeVar("Checking")
Removed = Literal["keep", "retire", "remove"]
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(eq=False)
class Pipeline:
    """What to do with each change of some sources. `version` is part of every effect's identity."""

    name: str
    sources: Sequence[Source] = ()
    store: str = "lake/"
    version: str = "1"
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lookups: Mapping[str, str | Path] = field(default_factory=dict[str, "str | Path"])
    retry: RetryPlan | None = None  # None: by what triggers each entry
    removed: Removed = "keep"
    dataset: Dataset | str | None = None  # with one, what is published is catalogued
    deadline: str | float | None = None
    per_partition: int | None = None
    partition: Callable[[Envelope], str] | None = None
    coalesce: str | float | None = None
    retries_per_second: float = 100.0
    mask: Callable[[str], str] | None = None
    event_time: EventTime | None = None  # None: nothing is ever late
    validators: list[Step] = field(init=False, default_factory=list[Step])
    row_steps: list[RowsStep] = field(init=False, default_factory=list[RowsStep])
    transforms: list[Step] = field(init=False, default_factory=list[Step])
    applies: list[ApplyStep] = field(init=False, default_factory=list[ApplyStep])
    item_step: ItemStep | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        for what, given, right in chain(self._mistakes(), self._mistakes_of_pace()):
            raise PipelineError(f"Pipeline({self.name!r}): {what}={given!r}", hint=right)
        if isinstance(self.dataset, str):
            self.dataset = Dataset(self.dataset)
        self._collection: str | None = None
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
        if not _are_files(_unsure(self.lookups)):
            right = 'lookups are files by name, as in lookups={"stations": "stations.csv"}'
            yield "lookups", self.lookups, right
        if not isinstance(_unsure(self.retry), RetryPlan | None):
            yield "retry", self.retry, "retry is an hg.RetryPlan"
        if self.removed not in ("keep", "retire", "remove"):
            yield "removed", self.removed, 'use "keep", "retire" or "remove"'
        if not isinstance(_unsure(self.dataset), Dataset | str | None):
            yield "dataset", self.dataset, 'use dataset="soil" or dataset=hg.Dataset("soil", ...)'
        if not isinstance(_unsure(self.event_time), EventTime | None):
            yield "event_time", self.event_time, 'use event_time=hg.EventTime(lateness="1h")'
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

    def validate(
        self,
        check: Checking,
        *,
        read: Callable[[Path], Any] | None = None,
        name: str | None = None,
    ) -> Checking:
        """Check an object before anything is made of it: by a function, or by a contract.

        A function passes with None or True, fails with False, and may give `hg.Check`. What it
        raises is permanent, unless it is `hg.Retryable`. It must not depend on the network, the
        clock or chance. A contract is an `hg.JsonSchema`, or a schema of dataframely, pandera or
        Great Expectations; `read` makes its data frame of a local file.
        """
        where = f"{self.name}.validate"
        contract = contract_of(check, read=read, name=name, where=where)
        if contract is None:
            step = step_of(self.name, _unsure(check), ("obj", "run"), least=1, kind="validate")
            step = replace(step, name=name or step.name)
        else:
            step = Step(contract, contract.name, is_async=False, takes=1, contract=contract)
            if any(s.name == step.name for s in self.validators):
                raise PipelineError(
                    f"{where}: two checks are called {step.name!r}", hint="give one of them name=…"
                )
        self.validators.append(step)
        return check

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
            step = step_of(self.name, function, ("obj", "run"), least=1, kind=f"rows({table!r})")
            self.row_steps.append(RowsStep(step, declared))
            return function

        return decorate

    def transform(self, function: Handler) -> Handler:
        """Files to make of an object: return or yield `{"name": content}` or `hg.Artifact`."""
        self.transforms.append(
            step_of(self.name, function, ("obj", "run"), least=1, kind="transform")
        )
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
            step = step_of(self.name, function, takes, least=2, kind="apply", yields=False)
            back = None
            if undo is not None:
                back = step_of(self.name, undo, takes, least=2, kind="apply(undo=…)", yields=False)
            self.applies.append(ApplyStep(step, independent, back))
            return function

        return decorate if function is None else decorate(function)

    @overload
    def item(self, function: Handler) -> Handler: ...
    @overload
    def item(
        self, *, collection: str | None = None, item: Callable[[Object], str] | None = None
    ) -> Callable[[Handler], Handler]: ...
    def item(
        self,
        function: Any = None,
        *,
        collection: str | None = None,
        item: Callable[[Object], str] | None = None,
    ) -> Any:
        """What a catalog shows of an object: amend the item that is handed in, or return another.

        It is a plain STAC document, or a `pystac.Item` if the parameter is annotated so. What this
        raises is permanent, as in `validate`. Objects for which `item=` gives the same name are
        one item.
        """
        if self.item_step is not None:
            raise PipelineError(
                f"{self.name}: two handlers describe its items", hint="describe them in one handler"
            )
        if collection is not None and not is_name(collection):
            raise PipelineError(
                f"{self.name}.item: collection={collection!r} is not a name",
                hint='use letters, digits, - _ and . (at most 63), as in collection="soil"',
            )
        if collection is None and self.dataset is None:
            raise PipelineError(
                f"{self.name}.item: its items belong to no collection",
                hint=f'write: @{self.name}.item(collection="{self.name}")',
            )
        if item is not None and not callable(item):
            raise PipelineError(
                f"{self.name}.item: item={item!r} is not a function",
                hint="item is a function from hg.Object to the item's name",
            )

        def decorate(function: Handler) -> Handler:
            takes = ("item", "obj", "run")
            step = step_of(self.name, function, takes, least=1, kind="item", yields=False)
            first = next(iter(inspect.signature(function).parameters))
            if first == "obj":
                raise PipelineError(
                    f"{self.name}.item: {step.name}({first}, …) has the wrong signature",
                    hint=f"write: def {getattr(function, '__name__', 'handler')}(item, obj, run)",
                )
            self.item_step = ItemStep(step, item, self._wants_pystac(function, step.name))
            self._collection = collection
            self.dataset = self.dataset or Dataset(collection or self.name)
            return function

        return decorate if function is None else decorate(function)

    def _wants_pystac(self, function: Any, name: str) -> bool:
        wanted = first_annotation(function) == "pystac.Item"
        if wanted and find_spec("pystac") is None:
            raise PipelineError(
                f"{self.name}.item: {name} wants a pystac.Item, and pystac is not installed",
                hint="pip install 'headgate[stac]', or take the item as a plain dict",
            )
        return wanted

    @property
    def collection(self) -> str | None:
        """The catalog's collection that its publications are items of; None: not catalogued."""
        return self._collection or (
            self.dataset.name if isinstance(self.dataset, Dataset) else None
        )

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
    def streams(self) -> list[str]:
        """The sources whose events have a time of their own. A schedule tells periods instead."""
        return [s.name for s in self.sources if getattr(s, "provider", None) != "cron"]

    @property
    def is_async(self) -> bool:
        """Does any handler ahead of the commit need the event loop?"""
        steps = [*self.validators, *(r.step for r in self.row_steps), *self.transforms]
        if self.item_step is not None:
            steps.append(self.item_step.step)
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
        written = [(step.name, content_of(step)) for step in steps]
        if (described := self.item_step) is not None:
            written.append((described.step.name, content_of(described.step)))
            if described.of is not None:
                written.append(("item=", code_of(described.of)))
        for name, content in written:
            digest.update(name.encode() + b"\0")
            digest.update(content.encode() + b"\0")
        return digest.digest()

    def declared(self) -> dict[str, Any]:
        """The declaration as the ledger keeps it, for whoever has no user code at hand."""
        timed = {} if self.event_time is None else {"event_time": self.event_time.declared()}
        return timed | {
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
            "contracts": [s.contract.declared() for s in self.validators if s.contract],
            "collection": self.collection,
            "item": None if self.item_step is None else self.item_step.step.name,
        }


def _are_files(given: object) -> bool:
    if not isinstance(given, Mapping):
        return False
    named = cast("Mapping[object, object]", given)
    return all(
        isinstance(name, str) and is_name(name) and isinstance(path, str | Path) and path != ""
        for name, path in named.items()
    )


def _unsure(value: object) -> object:
    """Whatever the types say, an author may have given anything."""
    return value
