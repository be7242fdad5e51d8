"""JSON Schema: whether a document, each of its lines or each of its features is what it must be.

Nothing is fetched: a `$ref` has to lead inside the schema, or to a draft of JSON Schema itself.
Lines are read one by one, so that memory stays constant; a document and a GeoJSON collection are
read as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import orjson

from headgate.errors import PipelineError, SchemaError
from headgate.model.facts import Check
from headgate.model.object import Object

from .faults import Faults

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Each = Literal["document", "line", "feature"]
KIND = "json_schema"
BROKEN = "contract"
LINE_BYTES = 64 << 20
# These and no others, whatever else is installed: an object passes everywhere or nowhere.
FORMATS = (
    "date", "date-time", "email", "ipv4", "ipv6", "regex", "time", "uri", "uri-reference", "uuid",
)  # fmt: skip
NEEDS = "in Headgate's checkout: pip install '.[contracts]'"
RIGHT = 'write hg.JsonSchema({"type": "object", ...}) or hg.JsonSchema("schema.json")'
WRONG = "correct the schema there: it is no JSON Schema itself"
INSIDE = "nothing is fetched: put what it refers to under $defs, and refer to #/$defs/…"


class JsonSchema:
    """A JSON Schema as a check: `soil.validate(hg.JsonSchema("soil.schema.json", each="line"))`.

    `schema` is a mapping, or the path of a file. `each` says what it describes: the whole document,
    each line (JSON Lines), or each feature of a GeoJSON document.
    """

    def __init__(self, schema: Mapping[str, Any] | str | Path, *, each: Each = "document") -> None:
        if each not in ("document", "line", "feature"):
            raise PipelineError(
                f"hg.JsonSchema: each={each!r}", hint='use "document", "line" or "feature"'
            )
        document = _read(schema)
        self._each: Each = each
        self._label = "a mapping" if isinstance(schema, Mapping) else str(schema)
        self._stem = "" if isinstance(schema, Mapping) else Path(schema).name.partition(".")[0]
        # Of the canonical text, so that what the author does to the mapping later changes nothing.
        self.content = f"{each}\0{_canonical(document, self._label)}"
        self._validator  # noqa: B018  (a schema that is none is refused where it is declared)

    def __repr__(self) -> str:
        return f"hg.JsonSchema({self._label}, each={self._each!r})"

    @property
    def name(self) -> str:
        """What the check is called unless it is named: the file, the title, or what it is."""
        title = self._schema.get("title")
        return self._stem or (title if isinstance(title, str) else "") or KIND

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return json.loads(self.content.partition("\0")[2])

    @cached_property
    def _validator(self) -> Validator:
        try:
            return _validator(self._schema)
        except _Refused as refused:
            raise PipelineError(
                f"hg.JsonSchema of {self._label}: {refused}", hint=refused.hint
            ) from None

    def examine(self, obj: Object, name: str) -> Iterator[Check]:
        """Hold an object against it."""
        faults, examined, failed = Faults(), 0, 0
        try:
            for instance in self._instances(obj):
                examined += 1
                failed += self._breaks(instance, faults)
        except SchemaError as error:
            yield Check(name, False, KIND, error.reason, str(error))
            return
        passed = failed == 0
        unit = self._each if examined == 1 else f"{self._each}s"
        text = None if passed else f"{failed} of {examined} {unit} failed: {faults.text()}"
        yield Check(name, passed, KIND, None if passed else BROKEN, text, examined, failed)

    def _instances(self, obj: Object) -> Iterator[Any]:
        match self._each:
            case "document":
                yield obj.json()
            case "feature":
                yield from _features(obj)
            case "line":
                yield from _lines(obj)

    def _breaks(self, instance: Any, faults: Faults) -> bool:
        if isinstance(instance, _Unread):
            faults.add("", instance.rule, instance.text)
            return True
        broken = False
        for error in cast("Iterator[Any]", self._validator.iter_errors(instance)):
            broken = True
            # Its number in a list says nothing about an element, and depends on the order of rows.
            place = "".join(f"/{'*' if isinstance(p, int) else p}" for p in error.absolute_path)
            faults.add(place or "/", str(error.validator or "false"), error.message)
        return broken


class _Unread:
    """A line that is no JSON."""

    def __init__(self, rule: str, text: str = "") -> None:
        self.rule = rule
        self.text = text


class _Refused(Exception):
    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def _read(schema: object) -> object:
    if isinstance(schema, Mapping):
        return dict(cast("Mapping[Any, Any]", schema))
    if not isinstance(schema, str | Path):
        raise PipelineError(f"hg.JsonSchema of a {type(schema).__name__}", hint=RIGHT)
    try:
        return json.loads(Path(schema).read_bytes())
    except OSError as error:
        raise PipelineError(
            f"hg.JsonSchema({str(schema)!r}): {error.strerror or error}",
            hint=f"the path is relative to the current folder, {Path.cwd()}",
        ) from None
    except (ValueError, RecursionError) as error:
        raise PipelineError(
            f"hg.JsonSchema({str(schema)!r}) is no JSON: {error}", hint=RIGHT
        ) from None


def _canonical(document: object, label: str) -> str:
    if not isinstance(document, dict):
        raise PipelineError(
            f"hg.JsonSchema of {label}: a {type(document).__name__} is no schema", hint=RIGHT
        )
    try:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError as error:
        raise PipelineError(f"hg.JsonSchema of {label}: {error}", hint=RIGHT) from None


def _validator(schema: dict[str, Any]) -> Validator:
    try:
        drafts: Any = import_module("jsonschema_specifications").REGISTRY
        import_module("rfc3339_validator")
        import_module("rfc3986_validator")
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError as WrongSchema
        from jsonschema.validators import validator_for
    except ImportError as error:
        raise _Refused(f"the library {error.name} is missing", NEEDS) from None
    kind = Draft202012Validator
    if "$schema" in schema:
        kind = cast("Any", validator_for)(schema, default=None)
    if kind is None:
        raise _Refused(
            f"$schema={schema['$schema']!r} is no draft that is known",
            'use "$schema": "https://json-schema.org/draft/2020-12/schema"',
        )
    try:
        kind.check_schema(schema)
    except WrongSchema as error:
        place = "".join(f"/{part}" for part in cast("Any", error).absolute_path)
        raise _Refused(f"{place or '/'}: {cast('Any', error).message}"[:500], WRONG) from None
    _must_be_inside(schema, kind, drafts)
    # Without a registry of its own it would fetch what a $ref leads to.
    made: Any = kind(schema, registry=drafts, format_checker=_formats(kind))
    return made


def _formats(kind: Any) -> Any:
    from jsonschema import FormatChecker

    known = kind.FORMAT_CHECKER.checkers
    checker = FormatChecker(())
    checker.checkers = {name: known[name] for name in FORMATS if name in known}
    return checker


def _must_be_inside(schema: dict[str, Any], kind: Any, registry: Any) -> None:
    """Every `$ref` leads somewhere without the network."""
    from referencing import Resource
    from referencing.exceptions import NoSuchResource, Unresolvable
    from referencing.jsonschema import specification_with

    spoken = kind.META_SCHEMA.get("$id") or kind.META_SCHEMA["id"]
    root: Any = Resource(contents=schema, specification=specification_with(spoken))

    def look(resource: Any, resolver: Any) -> None:
        contents = resource.contents
        if isinstance(contents, dict):
            for word in ("$ref", "$dynamicRef", "$recursiveRef"):
                if isinstance(ref := cast("dict[str, Any]", contents).get(word), str):
                    try:
                        resolver.lookup(ref)
                    except (NoSuchResource, Unresolvable):
                        raise _Refused(f"{word} {ref!r} leads nowhere", INSIDE) from None
        for below in resource.subresources():
            look(below, resolver.in_subresource(below))

    look(root, registry.resolver_with_root(root))


def _features(obj: Object) -> Iterator[Any]:
    document = obj.json()
    kind = cast("dict[str, Any]", document).get("type") if isinstance(document, dict) else None
    if kind == "Feature":
        yield document
    elif kind == "FeatureCollection" and isinstance(document["features"], list):
        yield from document["features"]
    else:
        raise SchemaError(f"{obj.uri} is no GeoJSON with features", reason="not_geojson")


def _lines(obj: Object) -> Iterator[Any]:
    with obj.open() as body:
        while raw := body.readline(LINE_BYTES):
            if len(raw) == LINE_BYTES:
                while rest := body.readline(LINE_BYTES):
                    if rest.endswith(b"\n"):
                        break
                yield _Unread("line_too_long", f"more than {LINE_BYTES:,} bytes")
                continue
            # Sequences of GeoJSON begin each text with a record separator.
            text = raw.strip(b"\x1e \t\r\n")
            if text:
                yield _parsed(text)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return _Unread("not_json", str(error))


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
