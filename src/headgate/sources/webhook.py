"""A webhook as a source: somebody calls us, and the body of the call is the object.

    hg.Webhook(secrets={"2026-01": hg.env("ORDERS_SECRET")}, uri="orders/{order.id}")

A call counts once: its id is used up with it. A call that changes something cites the preview it
saw, unless the pipeline waives that, as it must for senders that cannot ask first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import quote

from headgate.errors import ConfigError, ObjectMissing, PipelineError
from headgate.model.call import Call, Vouched, Web
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope, Provider, Refused
from headgate.model.parse import strict
from headgate.model.parse.result import where
from headgate.model.secret import Secret
from headgate.model.trace import carried, told
from headgate.net import signatures

Scheme = Literal["standard", "github"]
KEYS_AT_MOST = 8
LONGEST_URI = 2000
_KEY_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_PLACE = re.compile(r"\{([^{}]*)\}")
_FIELD = re.compile(r"[^.{}\s]+(\.[^.{}\s]+)*")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}(; ?charset=[\w-]{1,40})?", re.ASCII)


class Webhook:
    """Calls to `POST /hooks/PIPELINE`, signed with one of the secrets."""

    door = "webhook"
    provider: Provider = "webhook"

    def __init__(
        self,
        *,
        secrets: Secret | Mapping[str, Secret],
        scheme: Scheme = "standard",
        uri: str = "webhook:/{request}",
        preview: Literal["required", "waived"] = "required",
        reuse: Literal["refuse", "replay"] = "refuse",
        tolerance: str | float = "5m",
        name: str = "webhook",
    ) -> None:
        self.name = name
        self.scheme: Scheme = scheme
        self.preview = preview
        self.reuse = reuse
        self.uri = uri
        self.tolerance_seconds = seconds(tolerance, f"{name}: tolerance")
        self._secrets = named_secrets(secrets, name)
        self._places = [p for p in _PLACE.findall(uri) if p != "request"]
        self._refuse_mistakes()

    def _refuse_mistakes(self) -> None:
        for what, given, allowed in (
            ("scheme", self.scheme, ("standard", "github")),
            ("preview", self.preview, ("required", "waived")),
            ("reuse", self.reuse, ("refuse", "replay")),
        ):
            if given not in allowed:
                raise PipelineError(
                    f"{self.name}: {what}={given!r}", hint=f"use {' or '.join(map(repr, allowed))}"
                )
        if self.scheme == "github" and self.preview == "required":
            raise PipelineError(
                f"{self.name}: GitHub's scheme signs the body alone, so a preview of it could be"
                " turned into the real call by anyone who saw it",
                hint='say preview="waived", or use scheme="standard"',
            )
        if not self.uri or not all(_FIELD.fullmatch(place) for place in self._places):
            raise PipelineError(
                f"{self.name}: uri={self.uri!r}",
                hint='write fields of the body in braces, as in "orders/{order.id}"',
            )

    def check(self) -> None:
        """Raise `UsageError` when a secret is not there or protects nothing."""
        self.secrets()

    def secrets(self) -> dict[str, bytes]:
        """The secrets as they are now: a file that was exchanged counts at once."""
        read = signatures.standard_secret if self.scheme == "standard" else signatures.plain_secret
        return {key_id: read(key_id, handle.reveal()) for key_id, handle in self._secrets.items()}

    def owns(self, uri: str) -> bool:
        """The bytes came with the call; there is nothing else to read."""
        return False

    def fetch(self, envelope: Envelope) -> Iterable[bytes]:
        raise ObjectMissing(f"{envelope.uri} came by a webhook and cannot be read again")

    async def vouch(self, call: Call, web: Web) -> Vouched:
        secrets = self.secrets()
        if self.scheme == "standard":
            return signatures.standard(call, secrets, self.tolerance_seconds)
        return signatures.github(call, secrets)

    def read(self, call: Call, vouched: Vouched) -> Sequence[Envelope | Refused]:
        """The body, as one envelope. What says that it is JSON has to be."""
        request = vouched.request_id or ""
        kind = dict(call.headers).get("content-type", "")
        document: object = None
        if self._places or "json" in kind.lower():
            found = strict.load(call.body, len(call.body))
            if found.problems:
                wrong = found.problems[0]
                return [Refused(wrong.reason, where(wrong.path), wrong.text, call.body)]
            document = found.value
        try:
            uri = self._address(request, document)
        except LookupError as missing:
            (field,) = missing.args
            text = f"the uri of this object needs the field {field!r}, as text or a whole number"
            return [Refused("missing_field", str(field), text, call.body)]
        if len(uri) > LONGEST_URI:
            text = f"the uri has more than {LONGEST_URI} characters"
            return [Refused("uri_too_long", "$", text, call.body)]
        return [
            carried(
                Envelope(
                    event_id=request,
                    source=f"webhook:{vouched.scheme}",
                    provider="webhook",
                    detector="webhook",
                    uri=uri,
                    size=len(call.body),
                    content_type=kind if _MEDIA_TYPE.fullmatch(kind) else None,
                    event_time=vouched.sent_at or call.received_at,
                    clock="producer" if vouched.sent_at else "received",
                    received_at=call.received_at,
                    metadata={"scheme": vouched.scheme, "key_id": vouched.key_id},
                    data=call.body,
                ),
                told(dict(call.headers)),
            )
        ]

    def _address(self, request: str, document: object) -> str:
        def fill(place: re.Match[str]) -> str:
            name = place[1]
            return quote(request if name == "request" else _value(document, name), safe="")

        return _PLACE.sub(fill, self.uri)


def named_secrets(secrets: Secret | Mapping[str, Secret], where: str) -> dict[str, Secret]:
    """Secrets by key id; a single one is called `default`. Raises `PipelineError`."""
    if not isinstance(secrets, Mapping):
        secrets = {"default": secrets}
    right = 'give secrets={"2026-01": hg.env("NAME")}, or one hg.env("NAME")'
    if not secrets or len(secrets) > KEYS_AT_MOST:
        raise PipelineError(f"{where}: {len(secrets)} secrets", hint=right)
    for key_id, handle in secrets.items():
        if not _KEY_ID.fullmatch(key_id):
            raise PipelineError(f"{where}: the key id {key_id!r}", hint="letters, digits, . _ -")
        if not isinstance(cast("object", handle), Secret):
            raise ConfigError(f"{where}: a secret is written into the code", hint=right)
    return dict(secrets)


def _value(document: object, path: str) -> str:
    found: Any = document
    for part in path.split("."):
        if not isinstance(found, dict):
            raise LookupError(path)
        found = cast("dict[str, Any]", found).get(part)
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise LookupError(path)
    return str(found)
