"""Pushes of the clouds as a source: the provider calls us when an object changed.

    hg.Push.gcs(audience="https://in.example/events/gcs", email="pusher@p.iam.gserviceaccount.com")
    hg.Push.azure(key=hg.env("EVENT_GRID_KEY"))
    hg.Push.sns(topic="arn:aws:sns:eu-central-1:123456789012:changes")
    hg.Push.cloudevents(secrets=hg.env("EVENTS_SECRET"))

Each provider proves who it is in its own way; a push without that proof is refused. What it tells
is read by `model/parse`, and the object itself is read from its bucket.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, cast

from headgate.errors import PipelineError
from headgate.model import trace
from headgate.model.call import Call, Unproven, Vouched, Web
from headgate.model.duration import seconds
from headgate.model.envelope import Envelope, Provider, Refused
from headgate.model.parse import Confirmation, Parsed, parse
from headgate.model.secret import Secret
from headgate.model.uri import split_uri
from headgate.net import bearer, signatures, sns

from .announced import fetch, is_about_one_version
from .webhook import named_secrets

GOOGLE_KEYS = "https://www.googleapis.com/oauth2/v3/certs"
GOOGLE = ("https://accounts.google.com", "accounts.google.com")
Door = Literal["gcs", "azure", "sns", "cloudevents"]
Proof = Callable[[Call, Web], Awaitable[Vouched]]
_SCHEMES: Mapping[Door, tuple[str, ...]] = {
    "gcs": ("gs",),
    "azure": ("abfss",),
    "sns": ("s3",),
    "cloudevents": ("s3", "gs", "abfss"),
}
_PROVIDERS: Mapping[Door, Provider] = {"gcs": "gcs", "azure": "azure", "sns": "s3"}


class Push:
    """Calls to `POST /events/DOOR`. Made by one of the methods below."""

    def __init__(
        self,
        door: Door,
        proof: Proof,
        check: Callable[[], object],
        *,
        buckets: Sequence[str],
        suffix: str,
        name: str | None,
    ) -> None:
        if isinstance(cast("object", buckets), str):
            raise PipelineError(f"{door}: buckets={buckets!r}", hint="buckets is a list of names")
        self.door: Door = door
        self.provider: Provider = _PROVIDERS.get(door, "webhook")
        self.name = name or f"push:{door}"
        self._proof = proof
        self._check = check
        self._buckets = frozenset(buckets)
        self._suffix = suffix
        self.topic: sns.Topic | None = None
        self.origins: tuple[str, ...] = ()

    @classmethod
    def gcs(
        cls,
        *,
        audience: str,
        email: str,
        keys: str = GOOGLE_KEYS,
        buckets: Sequence[str] = (),
        suffix: str = "",
        name: str | None = None,
    ) -> Push:
        """Pub/Sub or Eventarc, with the OIDC token of the service account `email`."""
        _need(audience=audience, email=email, keys=keys)
        known = bearer.Keys(keys)

        async def proof(call: Call, web: Web) -> Vouched:
            return await bearer.verify(
                call, known, web, audience=audience, issuers=GOOGLE, claims={("email",): email}
            )

        return cls("gcs", proof, _nothing, buckets=buckets, suffix=suffix, name=name)

    @classmethod
    def azure(
        cls,
        *,
        key: Secret | Mapping[str, Secret] | None = None,
        audience: str = "",
        tenant: str = "",
        app: str = "",
        keys: str = "",
        buckets: Sequence[str] = (),
        suffix: str = "",
        name: str | None = None,
    ) -> Push:
        """Event Grid, with a key (`?key=…` in the address it calls) or a token of Entra ID."""
        if (key is None) == (not audience):
            raise PipelineError(
                "Push.azure needs a key or a token, and not both",
                hint='key=hg.env("EVENT_GRID_KEY"), or audience=, tenant= and app=',
            )
        if key is not None:
            secrets = named_secrets(key, "Push.azure")
            proof, check = _by_key(secrets), lambda: _revealed(secrets)
        else:
            _need(audience=audience, tenant=tenant, app=app)
            keys = keys or f"https://login.microsoftonline.com/{tenant}/discovery/v2.0/keys"
            proof, check = _by_entra(bearer.Keys(keys), audience, tenant, app), _nothing
        made = cls("azure", proof, check, buckets=buckets, suffix=suffix, name=name)
        made.origins = ("eventgrid.azure.net",)
        return made

    @classmethod
    def sns(
        cls,
        *,
        topic: str,
        buckets: Sequence[str] = (),
        suffix: str = "",
        name: str | None = None,
    ) -> Push:
        """SNS over HTTP: its signature is checked, and only this topic is confirmed."""
        known, certificates = sns.Topic(topic), sns.Certificates()

        async def proof(call: Call, web: Web) -> Vouched:
            return await sns.verify(call, known, certificates, web)

        made = cls("sns", proof, _nothing, buckets=buckets, suffix=suffix, name=name)
        made.topic = known
        return made

    @classmethod
    def cloudevents(
        cls,
        *,
        secrets: Secret | Mapping[str, Secret],
        origins: Sequence[str] = (),
        tolerance: str | float = "5m",
        buckets: Sequence[str] = (),
        suffix: str = "",
        name: str | None = None,
    ) -> Push:
        """CloudEvents in structured or batched mode, signed by Standard Webhooks."""
        handles = named_secrets(secrets, "Push.cloudevents")
        tolerance_seconds = seconds(tolerance, "Push.cloudevents: tolerance")

        async def proof(call: Call, web: Web) -> Vouched:
            if any(header.startswith("ce-") for header, _ in call.headers):
                raise Unproven(
                    "unsigned_mode",
                    "in binary mode the event's context is in headers, which nobody signed",
                    hint="Send structured mode: Content-Type: application/cloudevents+json",
                )
            return signatures.standard(call, _standard(handles), tolerance_seconds)

        made = cls(
            "cloudevents",
            proof,
            lambda: _standard(handles),
            buckets=buckets,
            suffix=suffix,
            name=name,
        )
        made.origins = tuple(origins)
        return made

    def check(self) -> None:
        """Raise `UsageError` when a secret is not there or protects nothing."""
        self._check()

    def owns(self, uri: str) -> bool:
        """Is this an object of the provider's, in one of the buckets?"""
        place = split_uri(uri)
        if place is None or uri.partition("://")[0] not in _SCHEMES[self.door]:
            return False
        bucket, key = place
        return (not self._buckets or bucket in self._buckets) and key.endswith(self._suffix)

    def fetch(self, envelope: Envelope) -> Iterable[bytes]:
        return fetch(envelope)

    async def vouch(self, call: Call, web: Web) -> Vouched:
        return await self._proof(call, web)

    def told(self, call: Call) -> Parsed:
        """What the call says, also where that is a question to us. Never raises."""
        provider = "sns" if self.door == "sns" else self.door
        headers = dict(call.headers)
        parsed = parse(
            call.body,
            received_at=call.received_at,
            provider=provider,
            headers=headers,
            limit_bytes=max(1, len(call.body)),
        )
        if (context := trace.told(headers)) is not None:
            parsed.records[:] = [
                one if isinstance(one, Refused) else trace.carried(one, context)
                for one in parsed.records
            ]
        return parsed

    def read(self, call: Call, vouched: Vouched) -> Sequence[Envelope | Refused]:
        """The changes that are ours: of our buckets, or with their bytes inside."""
        return self.ours(self.told(call))

    def ours(self, told: Parsed) -> list[Envelope | Refused]:
        """What of it this source takes in."""
        return [
            one
            for one in told.records
            if isinstance(one, Refused)
            or one.data is not None
            or (self.owns(one.uri) and not is_about_one_version(one))
        ]

    async def confirm(self, asked: Confirmation, web: Web) -> None:
        """Say yes to our own topic. Raises `Unproven` for any other, `Unavailable`."""
        if self.topic is None or asked.topic != self.topic.arn:
            raise Unproven("wrong_topic")
        await web.get(self.topic.confirmation(asked.token), most_bytes=65_536)


def _nothing() -> None:
    """There is no secret of ours to look at."""


def _need(**given: str) -> None:
    for what, value in given.items():
        if not isinstance(cast("object", value), str) or not value:
            raise PipelineError(f"Push: {what}={value!r}", hint=f"give {what} as text")


def _standard(handles: Mapping[str, Secret]) -> dict[str, bytes]:
    return {k: signatures.standard_secret(k, h.reveal()) for k, h in handles.items()}


def _revealed(handles: Mapping[str, Secret]) -> dict[str, bytes]:
    return {k: signatures.plain_secret(k, h.reveal()) for k, h in handles.items()}


def _by_key(handles: Mapping[str, Secret]) -> Proof:
    async def proof(call: Call, web: Web) -> Vouched:
        given = call.asked("key")
        if not given:
            raise Unproven("key_missing", "the address Event Grid calls ends in ?key=…")
        shown, right = given.encode(), _revealed(handles)
        # All are compared: how long it takes does not tell which one nearly fitted.
        found = [k for k, secret in right.items() if hmac.compare_digest(secret, shown)]
        if not found:
            raise Unproven("key_wrong")
        return Vouched("key", found[0], shown, "sender")

    return proof


def _by_entra(keys: bearer.Keys, audience: str, tenant: str, app: str) -> Proof:
    issuers = (
        f"https://sts.windows.net/{tenant}/",
        f"https://login.microsoftonline.com/{tenant}/v2.0",
    )

    async def proof(call: Call, web: Web) -> Vouched:
        # The second name is that of tokens of the first version.
        claims = {("azp", "appid"): app}
        return await bearer.verify(
            call, keys, web, audience=audience, issuers=issuers, claims=claims
        )

    return proof
