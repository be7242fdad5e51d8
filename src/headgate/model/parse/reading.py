"""Reading one document: what it is by its shape, its records one by one, what became of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

import msgspec
import orjson

from ..envelope import Envelope, Refused
from ..trace import Context, carried, told
from . import azure, cloudevents, eventbridge, gcs, ordinary, own, s3, sns
from .result import Bad, Ignored, Parsed, Path, where
from .shape import bad, unbase64
from .strict import Document, Problem, load

# provider → the shapes it may come in, also inside of SNS
PROVIDERS: dict[str, frozenset[str]] = {
    "s3": frozenset({"s3", "test", "sns", "eventbridge"}),
    "minio": frozenset({"s3", "test"}),
    "sns": frozenset({"sns", "s3", "test", "eventbridge", "cloudevents", "headgate"}),
    "eventbridge": frozenset({"eventbridge"}),
    "gcs": frozenset({"pubsub", "cloudevents"}),
    "azure": frozenset({"eventgrid", "cloudevents"}),
    "cloudevents": frozenset({"cloudevents"}),
    "headgate": frozenset({"headgate"}),
}
ANY = frozenset(shape for shapes in PROVIDERS.values() for shape in shapes)
_TEST = "s3:TestEvent"


def shape_of(value: Any) -> str | None:
    """What a value is, by the names only that shape has; None when it is nothing we know."""
    if not isinstance(value, dict):
        return None
    names = cast("dict[str, Any]", value)
    if "Records" in names:
        return "s3"
    if "specversion" in names:
        return "cloudevents"
    if "detail-type" in names:
        return "eventbridge"
    if "Type" in names and "TopicArn" in names:
        return "sns"
    if "eventType" in names and "data" in names:
        return "eventgrid"
    if isinstance(names.get("message"), dict):
        return "pubsub"
    if names.get("Event") == _TEST or names.get("EventName") == _TEST:
        return "test"
    if "uri" in names or ("bucket" in names and "key" in names):
        return "headgate"
    return None


class Reading:
    """One document being read. `out` is what it told."""

    def __init__(
        self, raw: bytes, received_at: datetime, provider: str | None, limit_bytes: int
    ) -> None:
        self.raw = raw
        self.received_at = received_at
        self.provider = provider
        self.limit_bytes = limit_bytes
        self.out = Parsed()
        self._trace: Context | None = None

    def document(self, raw: bytes, path: Path = (), inside: bool = False) -> None:
        """Read these bytes, which stand at `path` of the document that came."""
        shapes = ANY if self.provider is None else PROVIDERS[self.provider]
        if inside:
            shapes = shapes - {"sns"}
        if len(raw) <= self.limit_bytes and "s3" in shapes and self._trace is None:
            told = ordinary.envelopes(raw, self.received_at)
            if told is not None:
                self.out.records += told
                return
        read = load(raw, self.limit_bytes)
        if not read.is_json:
            self._refuse(read.problems[0], path)
            return
        value = read.value
        if isinstance(value, list):
            self._each(cast("list[Any]", value), read, path, (), b"[%b]", self._item(shapes))
            return
        shape = shape_of(value)
        if shape is None or shape not in shapes:
            for problem in read.problems[:1]:
                self._refuse(problem, path)
                return
            self._unknown(shape, path)
        elif shape == "s3":
            self._records(value, read, path)
        else:
            self._each([value], read, path, None, b"%b", lambda v, p: self._one(shape, v, p))

    def binary(self, headers: Mapping[str, str]) -> None:
        """A CloudEvent whose context is in headers; the bytes are its data."""
        if len(self.raw) > self.limit_bytes:
            self.document(self.raw)
            return

        def read(_: Any, path: Path) -> None:
            event = cloudevents.binary(headers, self.raw)
            self._cloudevent(event, path, lambda: self._loaded(self.raw, (*path, "data")))

        if self.provider is not None and "cloudevents" not in PROVIDERS[self.provider]:
            self._unknown("cloudevents", ())
        else:
            self._try(read, None, (), self.raw)

    # Records

    def _records(self, value: dict[str, Any], read: Document, path: Path) -> None:
        records = value["Records"]
        if not isinstance(records, list):
            self._refuse(Problem("wrong_type", ("Records",), "it is no array"), path)
            return
        items = cast("list[Any]", records)
        if not read.problems and self._trace is None:
            quick = s3.envelopes(items, self.received_at)
            if quick is not None:
                self.out.records += quick
                return
        self._each(items, read, path, ("Records",), b'{"Records":[%b]}', self._record)

    def _record(self, record: Any, path: Path) -> None:
        self._keep(s3.envelope(record, self.received_at, path))

    def _item(self, shapes: frozenset[str]) -> Callable[[Any, Path], None]:
        def read(value: Any, path: Path) -> None:
            shape = shape_of(value)
            if shape not in ("cloudevents", "eventgrid", "headgate") or shape not in shapes:
                raise _unknown_shape(shape, path, self.provider)
            self._one(shape, value, path)

        return read

    def _each(
        self,
        items: list[Any],
        read: Document,
        path: Path,
        base: Path | None,
        wrap: bytes,
        one: Callable[[Any, Path], None],
    ) -> None:
        """Read each item by itself. `base` is where they stand; None when there is just this one.

        Something wrong outside of all items is wrong with the whole document.
        """
        wrong: dict[int, Problem] = {}
        for problem in read.problems:
            inside = None if base is None else problem.path[len(base) :]
            if inside and problem.path[: len(base or ())] == base and isinstance(inside[0], int):
                wrong.setdefault(inside[0], problem)
            else:
                self._refuse(problem, path)
                return
        for n, item in enumerate(items):
            at = path if base is None else (*path, *base, n)
            if n in wrong:
                self._refuse(wrong[n], path)
            elif len(items) == 1 or read.problems:
                self._try(one, item, at, self.raw)
            else:
                self._try(one, item, at, wrap, pack=True)

    def _try(
        self,
        one: Callable[[Any, Path], None],
        item: Any,
        path: Path,
        raw: bytes,
        pack: bool = False,
    ) -> None:
        """Read one item. What is refused is kept so that it can be read again by itself."""
        try:
            one(item, path)
            return
        except Ignored as event:
            self.out.ignored.append(str(event))
            return
        except Bad as error:
            found = error
        except msgspec.ValidationError as error:
            found = bad(error, path)
        kept = raw % orjson.dumps(item) if pack else raw
        self.out.records.append(Refused(found.reason, where(found.path), found.text, kept))

    # Shapes

    def _one(self, shape: str, value: Any, path: Path) -> None:
        match shape:
            case "test":
                self.out.tests += 1
            case "sns":
                self._sns(value, path)
            case "eventbridge":
                self._keep(eventbridge.envelope(value, self.received_at, path))
            case "pubsub":
                message = gcs.push(value, path)
                path = (*path, "message")
                data = None
                if message.data:
                    where_data = (*path, "data")
                    data = self._loaded(unbase64(message.data, where_data), where_data)
                made = gcs.from_message(message, data, self.received_at, path)
                self._keep(carried(made, told(message.attributes)))
            case "eventgrid":
                if value["eventType"] == azure.VALIDATION:
                    self.out.handshake = azure.handshake(value["data"], (*path, "data"))
                else:
                    self._keep(*azure.envelopes(value, self.received_at, path))
            case "cloudevents":
                event = cloudevents.structured(value, path)
                self._cloudevent(event, path, lambda: event.value)
            case _:
                self._keep(own.envelope(value, self.received_at, path))

    def _sns(self, value: Any, path: Path) -> None:
        match value["Type"]:
            case "Notification":
                message = sns.notification(value, path)
                self._trace = message.trace
                self.document(message.Message.encode(), (*path, "Message"), inside=True)
                self._trace = None
            case "SubscriptionConfirmation":
                self.out.confirmation = sns.confirmation(value, path)
            case "UnsubscribeConfirmation":
                # Its address would subscribe again.
                raise Ignored("sns:UnsubscribeConfirmation")
            case other:
                text = f"{str(other)[:80]!r} is no message of SNS"
                raise Bad("unknown_event", (*path, "Type"), text)

    def _cloudevent(
        self, event: cloudevents.CloudEvent, path: Path, data: Callable[[], Any]
    ) -> None:
        at, told, here = self.received_at, event.told, (*path, "data")
        trace = cloudevents.trace(told)
        if told.type in gcs.TYPES and self.provider in (None, "gcs", "cloudevents"):
            made = [gcs.from_cloudevent(told.type, told.id, data(), told.time, at, here)]
        elif told.type.startswith("Microsoft.") and self.provider in (None, "azure", "cloudevents"):
            if told.type == azure.VALIDATION:
                self.out.handshake = azure.handshake(data(), here)
                return
            kind = (*path, "type")
            made = azure.changes(told.type, told.id, data(), told.time, at, kind, here)
        elif self.provider in ("gcs", "azure"):
            text = f"{told.type[:80]!r} is no event of this provider"
            raise Bad("unknown_event", (*path, "type"), text)
        elif told.type.startswith(cloudevents.OWN):
            value = data()
            if not isinstance(value, dict):
                raise Bad("wrong_type", here, "it is no object")
            made = [own.envelope(cast("dict[str, Any]", value), at, here)]
        else:
            made = [cloudevents.envelope(event, at, path)]
        self._keep(*(carried(e, trace) for e in made))

    # What becomes of it

    def _loaded(self, raw: bytes, path: Path) -> Any:
        """JSON within a document."""
        read = load(raw, self.limit_bytes)
        for problem in read.problems:
            raise Bad(problem.reason, (*path, *problem.path), problem.text)
        return read.value

    def _keep(self, *envelopes: Envelope) -> None:
        self.out.records += [carried(e, self._trace) for e in envelopes]

    def _refuse(self, problem: Problem, path: Path) -> None:
        said = where((*path, *problem.path))
        self.out.records.append(Refused(problem.reason, said, problem.text, self.raw))

    def _unknown(self, shape: str | None, path: Path) -> None:
        error = _unknown_shape(shape, path, self.provider)
        self._refuse(Problem(error.reason, (), error.text), path)


def _unknown_shape(shape: str | None, path: Path, provider: str | None) -> Bad:
    text = "it is nothing that is known" if shape is None else f"it is of the kind {shape}"
    if provider is not None:
        text += f", and {provider} was expected"
    return Bad("unknown_shape", path, text)
