"""The declaration: what cannot work is refused when the file is imported, with the right way."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pystac
import pytest

from headgate.errors import PipelineError, UsageError
from headgate.model.dataset import Dataset
from headgate.model.pipeline import Pipeline
from headgate.model.verdict import CRON


class Reading(TypedDict):
    station: str
    mm: float


class Named:
    """As much of a source as a declaration looks at."""

    def __init__(self, name: str) -> None:
        self.name = name


def pipeline(**given: Any) -> Pipeline:
    return Pipeline(**{"name": "rain", **given})


Decorate = Callable[[Pipeline], Callable[[Any], Any]]

KINDS: dict[str, tuple[Decorate, str]] = {
    "validate": (lambda p: p.validate, "(obj, run)"),
    "rows('reading')": (lambda p: p.rows("reading", key="station", schema=Reading), "(obj, run)"),
    "transform": (lambda p: p.transform, "(obj, run)"),
    "apply": (lambda p: p.apply, "(tx, obj, run)"),
    "item": (lambda p: p.item(collection="rain"), "(item, obj, run)"),
}


def steps(p: Pipeline) -> list[Any]:
    return [
        *p.validators,
        *(r.step for r in p.row_steps),
        *p.transforms,
        *(a.step for a in p.applies),
        *([] if p.item_step is None else [p.item_step.step]),
    ]


def test_a_pipeline_has_defaults_that_say_what_it_does():
    """A name is enough."""
    p = pipeline()
    assert (p.store, p.version, p.retry, p.removed) == (
        "lake/", "1", None, "keep",
    )  # fmt: skip
    assert (p.deadline_seconds, p.is_async, p.independent) == (None, False, True)
    assert pipeline(deadline="15m").deadline_seconds == 900


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "Rain"}, "lower-case letters"),
        ({"name": ""}, "lower-case letters"),
        ({"name": "1rain"}, "lower-case letters"),
        ({"name": "rain fall"}, "lower-case letters"),
        ({"name": "rain\n"}, "lower-case letters"),
        ({"name": "r" * 64}, "lower-case letters"),
        ({"name": None}, "lower-case letters"),
        ({"version": 1}, 'version="1"'),
        ({"version": ""}, 'version="1"'),
        ({"store": Path("lake")}, 'store="lake/"'),
        ({"store": ""}, 'store="lake/"'),
        ({"sources": Named("a")}, "sources=["),
        ({"sources": [Named("a"), Named("b"), Named("a")]}, "two sources are called 'a'"),
        ({"params": ["limit"]}, "params={"),
        ({"params": {"a": {"b": {1, 2}}}}, "params.a.b is a set: use text, numbers"),
        ({"params": {"a": {1: 2}}}, "params.a has the name 1"),
        ({"params": {"a": "\ud800"}}, "params.a has half a surrogate"),
        ({"params": {"a": object()}}, "params.a is a object"),
        ({"retry": 5}, "hg.RetryPlan"),
        ({"removed": "delete"}, '"keep", "retire" or "remove"'),
        ({"deadline": "soon"}, "deadline is 'soon'"),
        ({"deadline": 0}, "needs some time"),
        ({"deadline": -1}, "deadline is -1"),
    ],
)
def test_a_pipeline_that_cannot_work_is_refused_with_the_way_out(given: dict[str, Any], said: str):
    """Named, with what was given and what to give instead."""
    with pytest.raises(UsageError) as refused:
        pipeline(**given)
    message = f"{refused.value} {refused.value.hint}"
    assert message.startswith(f"Pipeline({given.get('name', 'rain')!r}): ")
    assert said in message


def test_the_same_parameters_are_the_same_work():
    """In any order; other ones are other work."""
    one = pipeline(params={"a": 1, "b": [1.5, None]})
    assert one.params_digest == pipeline(params={"b": [1.5, None], "a": 1}).params_digest
    assert one.params_digest != pipeline(params={"a": 1, "b": [1.5]}).params_digest


def takes_two(obj: Any, run: Any) -> None: ...
def takes_one(obj: Any) -> None: ...
def takes_one_and_a_default(obj: Any, factor: int = 2) -> None: ...
def takes_all(tx: Any, obj: Any, run: Any) -> None: ...
def takes_item(item: Any) -> None: ...
def takes_none() -> None: ...
def takes_four(a: Any, b: Any, c: Any, d: Any) -> None: ...
def takes_any(*args: Any) -> None: ...
def demands(obj: Any, run: Any, *, colour: str) -> None: ...


RIGHT = {
    "validate": {takes_two: 2, takes_one: 1, takes_one_and_a_default: 1, takes_item: 1},
    "rows('reading')": {takes_two: 2, takes_one: 1, takes_one_and_a_default: 1, takes_item: 1},
    "transform": {takes_two: 2, takes_one: 1, takes_one_and_a_default: 1, takes_item: 1},
    "apply": {takes_two: 2, takes_all: 3},
    "item": {takes_all: 3, takes_item: 1},
}
ALL = [
    takes_two,
    takes_one,
    takes_one_and_a_default,
    takes_all,
    takes_item,
    takes_none,
    takes_four,
    takes_any,
    demands,
]


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_signature_fails_with_the_right_one(kind: str, function: Any):
    """The message shows what was written, the hint the line to write."""
    decorate, right = KINDS[kind]
    p = pipeline()
    if function in RIGHT[kind]:
        assert decorate(p)(function) is function
        assert [s.takes for s in steps(p)] == [RIGHT[kind][function]]
        return
    with pytest.raises(PipelineError) as refused:
        decorate(p)(function)
    assert str(refused.value).startswith(f"rain.{kind}: {function.__name__}(")
    assert refused.value.hint == f"write: def {function.__name__}{right}"
    assert not steps(p)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("thing", [5, b"handler", [takes_two]])
def test_what_is_no_function_is_refused(kind: str, thing: Any):
    """A decorator on something else says what it wants."""
    decorate, right = KINDS[kind]
    with pytest.raises(PipelineError, match="is not a function") as refused:
        decorate(pipeline())(thing)
    assert refused.value.hint == f"write: def handler{right}"


async def awaits(obj: Any, run: Any) -> None: ...


async def awaits_and_yields(obj: Any, run: Any):
    yield {}


def yields(obj: Any, run: Any):
    yield {}


class Callable_:
    async def __call__(self, obj: Any, run: Any) -> None: ...

    async def method(self, obj: Any, run: Any) -> None: ...

    def plain(self, obj: Any, run: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async", "name"),
    [
        (takes_two, False, "takes_two"),
        (yields, False, "yields"),
        (awaits, True, "awaits"),
        (awaits_and_yields, True, "awaits_and_yields"),
        (functools.partial(awaits, run=None), True, "awaits"),
        (functools.partial(takes_all, None), False, "takes_all"),
        (Callable_(), True, "Callable_.__call__"),
        (Callable_().method, True, "Callable_.method"),
        (Callable_().plain, False, "Callable_.plain"),
        (lambda obj, run: None, False, "<lambda>"),
    ],
)
def test_what_has_to_be_awaited_is_noticed(function: Any, is_async: bool, name: str):
    """Coroutines and async generators, also behind a partial, a method or an object."""
    p = pipeline()
    p.transform(function)
    assert p.is_async is is_async
    assert p.transforms[0].name == name


@pytest.mark.parametrize("kind", ["apply", "item"])
@pytest.mark.parametrize("function", [yields, awaits_and_yields])
def test_what_yields_where_nothing_is_taken_would_do_nothing(kind: str, function: Any):
    """Calling a generator runs none of it: better refused than silently left out."""
    with pytest.raises(PipelineError, match="yields, so calling it would run none of it"):
        KINDS[kind][0](pipeline())(function)


def test_two_handlers_for_one_table_are_refused():
    """The second would take back what the first wrote."""
    p = pipeline()
    p.rows("reading", key="station", schema=Reading)(takes_two)
    with pytest.raises(PipelineError, match="rain: two handlers write rows of reading") as refused:
        p.rows("reading", key="station", schema=Reading)
    assert refused.value.hint == "yield them from one handler"
    p.rows("weather.reading", key="station", schema=Reading)(takes_two)


def test_free_sql_has_one_committer_unless_it_says_otherwise():
    """With or without brackets; one that is not independent makes all of it serial."""
    p = pipeline()
    assert p.apply(independent=True)(takes_all) is takes_all
    assert p.independent
    p.apply(takes_all)
    assert not p.independent


def described(item: pystac.Item, obj: Any) -> None: ...
def described_by_name(item: "pystac.Item") -> None: ...
def plainly(item: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("function", "wanted"),
    [(described, True), (described_by_name, True), (plainly, False), (takes_item, False)],
)
def test_a_handler_says_by_its_annotation_what_kind_of_item_it_wants(function: Any, wanted: bool):
    """A `pystac.Item` for whoever asks for one; everybody else gets a plain document."""
    p = pipeline(dataset="soil")
    assert p.item(function) is function
    assert p.item_step is not None
    assert p.item_step.wants_pystac is wanted


def test_a_pipeline_with_items_is_catalogued():
    """The dataset names the collection, unless the handler does; one of them has to."""
    assert pipeline().collection is None
    assert pipeline(dataset="soil").collection == "soil"
    p = pipeline(dataset="soil")
    p.item(collection="clay")(takes_all)
    assert (p.collection, p.dataset) == ("clay", Dataset("soil"))
    p = pipeline()
    p.item(collection="clay")(takes_all)
    assert (p.collection, p.dataset) == ("clay", Dataset("clay"))
    assert (p.declared()["collection"], p.declared()["item"]) == ("clay", "takes_all")


@pytest.mark.parametrize(
    ("given", "says", "hint"),
    [
        ({}, "belong to no collection", 'write: @rain.item(collection="rain")'),
        ({"collection": "two words"}, "is not a name", 'as in collection="soil"'),
        ({"collection": "soil", "item": "scene-7"}, "is not a function", "from hg.Object"),
    ],
)
def test_items_that_cannot_be_are_refused_with_the_way_out(
    given: dict[str, Any], says: str, hint: str
):
    """When the file is imported, not when the first object comes."""
    with pytest.raises(PipelineError, match=says) as refused:
        pipeline().item(**given)
    assert hint in refused.value.hint


def test_two_handlers_for_an_item_are_refused():
    """The second would not know what the first said."""
    p = pipeline(dataset="soil")
    p.item(takes_all)
    with pytest.raises(PipelineError, match="two handlers describe its items"):
        p.item(takes_all)


def test_the_code_of_an_item_is_part_of_the_code():
    """What a catalog shows was made by it; so were the names of items."""
    digests: set[bytes] = set()
    for number in range(4):
        p = pipeline(dataset="soil")
        if number == 1:
            p.item(takes_item)
        if number > 1:
            p.item(item=(lambda obj: "one") if number == 2 else (lambda obj: "two"))(takes_item)
        digests.add(p.code_digest())
    assert len(digests) == 4


def test_a_declaration_can_be_kept_without_its_code():
    """What the ledger stores of it is plain JSON."""
    p = pipeline(sources=[Named("in")], retry=CRON, deadline="1m")
    p.validate(takes_one)
    p.rows("reading", key="station", schema=Reading)(takes_two)
    p.transform(takes_two)
    p.apply(takes_all)
    kept = p.declared()
    assert kept["sources"] == ["in"]
    (rows,) = kept["rows"]
    assert (rows["table"], rows["key"], rows["handler"]) == ("reading", ["station"], "takes_two")
    assert rows["columns"][0] == {"name": "station", "type": "text", "nullable": False}
    assert kept["validators"] == ["takes_one"]
    assert kept["applies"] == [{"handler": "takes_all", "undo": None}]
    assert kept["retry"]["trigger"] == "cron"
    assert kept["deadline_seconds"] == 60


CODE = """
def handler(obj, run):
    wanted = {"rain", "snow", "hail", "sleet"}
    names = [n for n in obj.lines() if n in {"a", "b", "c", "d"}]
    return sorted(names, key=lambda n: (n, 1)), wanted
"""
LAID_OUT = """
# A comment.


def handler(
    obj, run,
):
    wanted = {"rain", "snow",
              "hail", "sleet"}  # and another

    names = [
        n for n in obj.lines()
        if n in {"a", "b", "c", "d"}
    ]
    return (sorted(names, key=lambda n: (n, 1)), wanted)
"""


def digest(source: str) -> bytes:
    namespace: dict[str, Any] = {}
    exec(compile(source, "pipeline.py", "exec"), namespace)
    p = pipeline()
    p.transform(namespace["handler"])
    return p.code_digest()


def test_the_code_digest_does_not_change_with_formatting():
    """Comments, line breaks, brackets and another place in the file are not another code."""
    assert digest(CODE) == digest(LAID_OUT) == digest("x = 1\n\n\n" + CODE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("obj.lines()", "obj.text()"),
        ('"hail"', '"fog"'),
        ("(n, 1)", "(n, 2)"),
        ("(n, 1)", "(n, True)"),
        ("if n in", "if n not in"),
        ("wanted\n", "names\n"),
        ('{"a", "b"', '{"a", "x"'),
    ],
)
def test_the_code_digest_changes_with_the_code(before: str, after: str):
    """A method, a value, a nested function: all of it is what ran."""
    assert digest(CODE) != digest(CODE.replace(before, after, 1))


def test_the_code_digest_is_the_same_in_every_process():
    """Restarting is not deploying: no address, no chance of hashing gets into it."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from headgate.model.pipeline import Pipeline\n"
        "import functools\n"
        f"exec({CODE!r})\n"
        "p = Pipeline('rain'); p.transform(handler); p.transform(functools.partial(handler))\n"
        "print(p.code_digest().hex())\n"
    )
    source = str(Path(sys.modules[Pipeline.__module__].__file__ or "").parents[2])
    seen = {
        subprocess.run(
            [sys.executable, "-c", script, source],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


def test_the_code_of_a_decorated_handler_is_the_authors():
    """A decorator does not hide that the handler behind it changed."""

    def decorated(number: int) -> bytes:
        def handler(obj: Any, run: Any) -> int:
            return 1

        def other(obj: Any, run: Any) -> int:
            return 2

        inner = handler if number == 1 else other
        inner.__qualname__ = inner.__name__ = "handler"

        @functools.wraps(inner)
        def wrapper(*args: Any) -> int:
            return inner(*args)

        p = pipeline()
        p.transform(wrapper)
        return p.code_digest()

    assert decorated(1) == decorated(1)
    assert decorated(1) != decorated(2)
