"""Every way around the proof that we could think of, tried on the real application: none leads in.

Each case is one request, or a few, built from what the right owner would send. Whatever the answer
is, it is no success, and the ledger holds nothing new.
"""

# ruff: noqa: E501 (a case is a line, and cases are read side by side)
from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest
from tests.server import keys
from tests.server.conftest import House
from tests.server.doors import github, signed

BODY = b'{"order":{"id":7},"name":"\xc3\xa9"}'
Pairs = list[tuple[Any, Any]]


@dataclass
class Try:
    """One attempt. `after` is what the right owner sent before it."""

    name: str
    path: str
    headers: Pairs = field(default_factory=list)
    body: bytes = BODY
    method: str = "POST"
    after: Callable[[House], Any] | None = None


def mac(
    key: bytes, *, id: str = "m", at: int | str = 0, body: bytes = BODY, how: Any = hashlib.sha256
) -> bytes:
    return hmac.new(key, f"{id}.{at}.".encode() + body, how).digest()


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def flipped(text: str, at: int) -> str:
    """The text with another letter at one place."""
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def given(headers: dict[str, str], **changed: Any) -> Pairs:
    """The headers with some changed; None leaves one out. `_` stands for `-`."""
    merged: dict[str, Any] = {**headers, **{k.replace("_", "-"): v for k, v in changed.items()}}
    return [(k, v) for k, v in merged.items() if v is not None]


def standard() -> Iterator[Try]:
    now = int(time.time())
    door = "/hooks/standard"
    key = keys.STANDARD_NEW
    raw = base64.b64decode(key.removeprefix("whsec_"))
    good = signed(key, BODY, id="m", at=now)
    sig = good["webhook-signature"]
    plain = sig.removeprefix("v1,")

    def one(name: str, headers: Pairs | None = None, body: bytes = BODY, **more: Any) -> Try:
        return Try(
            f"standard: {name}",
            more.pop("path", door),
            list(good.items()) if headers is None else headers,
            body,
            **more,
        )

    yield one("nothing", [])
    for header in good:
        yield one(f"without {header}", given(good, **{header: None}))
        yield one(f"empty {header}", given(good, **{header: ""}))
        yield one(f"{header} twice", [*good.items(), (header, good[header])])
        yield one(f"{header} twice, differing", [*good.items(), (header, "x")])
        yield one(
            f"{header} only under its svix name",
            given(good, **{header: None, header.replace("webhook", "svix"): good[header]}),
        )
    for name, forged in {
        "of another pipeline": signed(keys.OTHER, BODY, id="m", at=now),
        "of the events' door": signed(keys.EVENTS, BODY, id="m", at=now),
        "of an empty key": {"webhook-signature": "v1," + b64(mac(b"", at=now))},
        "of the secret's text": {"webhook-signature": "v1," + b64(mac(key.encode(), at=now))},
        "of the secret's base64": {"webhook-signature": "v1," + b64(mac(key[6:].encode(), at=now))},
        "of half the key": {"webhook-signature": "v1," + b64(mac(raw[:16], at=now))},
        "of the key id": {"webhook-signature": "v1," + b64(mac(b"new", at=now))},
        "by sha1": {"webhook-signature": "v1," + b64(mac(raw, at=now, how=hashlib.sha1))},
        "by sha512": {"webhook-signature": "v1," + b64(mac(raw, at=now, how=hashlib.sha512))},
        "by md5": {"webhook-signature": "v1," + b64(mac(raw, at=now, how=hashlib.md5))},
        "of the body alone": {
            "webhook-signature": "v1," + b64(hmac.new(raw, BODY, hashlib.sha256).digest())
        },
        "without a key": {"webhook-signature": "v1," + b64(hashlib.sha256(BODY).digest())},
        "in hex": {"webhook-signature": "v1," + mac(raw, at=now).hex()},
        "twice encoded": {"webhook-signature": "v1," + b64(plain.encode())},
        "in base64 for urls": {
            "webhook-signature": "v1," + plain.replace("+", "-").replace("/", "_").rstrip("=")
        },
        "without padding": {"webhook-signature": sig.rstrip("=")},
        "padded too much": {"webhook-signature": sig + "="},
        "cut to one": {"webhook-signature": sig[:4]},
        "cut by one": {"webhook-signature": "v1," + plain[1:]},
        "with more behind": {"webhook-signature": sig + "AAAA"},
        "with more before": {"webhook-signature": "v1,AAAA" + plain},
        "of version 2": {"webhook-signature": "v2," + plain},
        "of version 1a": {"webhook-signature": "v1a," + plain},
        "of Version 1": {"webhook-signature": "V1," + plain},
        "of no version": {"webhook-signature": plain},
        "with =": {"webhook-signature": "v1=" + plain},
        "with a blank inside": {"webhook-signature": "v1, " + plain},
        "quoted": {"webhook-signature": f'"{sig}"'},
        "with a tab": {"webhook-signature": f"v1,{'A' * 43}=\t{sig}"},
        "with commas": {"webhook-signature": f"v1,{'A' * 43}=,{sig}"},
        "after sixteen others": {"webhook-signature": " ".join([f"v1,{'A' * 43}="] * 16 + [sig])},
        "right but for its end": {"webhook-signature": "v1," + flipped(plain, 40)},
        "right but for its beginning": {"webhook-signature": "v1," + flipped(plain, 0)},
        "all zeros": {"webhook-signature": "v1," + b64(bytes(32))},
        "empty version 1": {"webhook-signature": "v1,"},
        "a wildcard": {"webhook-signature": "v1,*"},
        "percent-encoded": {"webhook-signature": quote(sig, safe="")},
        "in lower case": {"webhook-signature": "v1," + plain.lower()},
        "with a NUL": {"webhook-signature": sig + "\0"},
        "in wide letters": {"webhook-signature": ("v1," + plain).encode() + "\uff1d".encode()},
    }.items():
        yield one(f"signature {name}", given({**good, **forged}))
    for name, at in {
        "too old": str(now - 305),
        "too new": str(now + 400),
        "of last year": str(now - 31_536_000),
        "zero": "0",
        "negative": str(-now),
        "with a fraction": f"{now}.0",
        "with an exponent": "1e9",
        "with a plus": f"+{now}",
        "with a zero before": f"0{now}",
        "with a blank": f" {now}",
        "in hex": hex(now),
        "in milliseconds": str(now * 1000),
        "beyond all years": "9" * 12,
        "of ten thousand digits": "9" * 10_000,
        "with underscores": f"{now:_}",
        "as a date": "2026-01-01T12:00:00Z",
        "not a number": "NaN",
        "infinite": "Infinity",
    }.items():
        forged = {"webhook-timestamp": at, "webhook-signature": "v1," + b64(mac(raw, at=at))}
        yield one(f"signed time {name}", given({**good, **forged}))
        yield one(f"other time {name}", given(good, **{"webhook-timestamp": at}))
    yield one("other time within the tolerance", given(good, **{"webhook-timestamp": str(now - 1)}))
    yield one("time in arabic digits", given(good, **{"webhook-timestamp": "١٧٣١".encode()}))
    for name, id in {
        "other": "n", "in upper case": "M", "longer": "mm", "with a blank": "m ", "of 257": "m" * 257,
        "with a NUL": "m\0", "with a line break": "m\nwebhook-id: n", "beyond ascii": "\xb5",
    }.items():  # fmt: skip
        yield one(f"id {name}", given(good, **{"webhook-id": id}))
    shifted = f"{now}.rest".encode()
    borrowed = {"webhook-id": f"m.{now - 9}", "webhook-timestamp": str(now)}
    borrowed["webhook-signature"] = "v1," + b64(mac(raw, at=now - 9, body=shifted))
    yield one("id that borrows from the time", list(borrowed.items()), b"rest")
    yield one("signed id with a full stop", list(signed(key, BODY, id="m.1", at=now).items()))
    for name, body in {
        "empty": b"", "other": b"{}", "one blank more": BODY + b" ", "one line more": BODY + b"\n",
        "with a mark before": b"\xef\xbb\xbf" + BODY, "in utf-16": BODY.decode().encode("utf-16"),
        "in latin-1": BODY.decode().encode("latin-1"), "escaped": json.dumps(json.loads(BODY)).encode(),
        "laid out": json.dumps(json.loads(BODY), indent=1).encode(), "twice": BODY * 2,
        "cut": BODY[:-1], "with a NUL": BODY + b"\0", "packed": gzip.compress(BODY),
        "decomposed": BODY.replace(b"\xc3\xa9", b"e\xcc\x81"), "not utf-8": b"\xff\xfe",
        "as a form": b"payload=" + quote(BODY).encode(),
        "with a name twice": BODY[:-1] + b',"name":"x"}',
    }.items():  # fmt: skip
        yield one(f"body {name}", None, body)
    yield one(
        "signature in the query",
        [],
        path=f"{door}?" + "&".join(f"{k}={quote(v)}" for k, v in good.items()),
    )
    yield one("signature in the body", [], json.dumps({**good, "body": BODY.decode()}).encode())
    yield one("signature in a cookie", [("cookie", "; ".join(f"{k}={v}" for k, v in good.items()))])
    yield one("signature as a token", [("authorization", f"Bearer {sig}")])
    yield one(
        "signature as github's", [("x-hub-signature-256", "sha256=" + mac(raw, at=now).hex())]
    )
    yield one("the secret itself", [("authorization", f"Bearer {key}")])
    yield one("an API token", [("authorization", "Bearer hg_aaaaaaaaaaaa_" + "a" * 43)])
    yield one("github's scheme with our secret", list(github(key, BODY).items()))
    yield one(
        "says it was checked", [("x-signature-verified", "true"), ("x-forwarded-for", "127.0.0.1")]
    )
    for method in ("PUT", "PATCH", "DELETE", "GET", "HEAD"):
        yield one(f"by {method}", method=method)
    yield one(
        "method overridden", [*good.items(), ("x-http-method-override", "POST")], method="PUT"
    )
    for path in ("/hooks/Standard", "/hooks/standard/", "//hooks/standard", "/hooks/standard/../standard",
                 "/hooks/standard\0", "/hooks/", "/hooks", "/hooks/standard;x", "/hooks/gcs"):  # fmt: skip
        yield one(f"at {path!r}", path=path)


def standard_modes() -> Iterator[Try]:
    now = int(time.time())
    door, key = "/hooks/standard", keys.STANDARD_NEW
    good = signed(key, BODY, id="m", at=now)

    def one(name: str, headers: Pairs | None = None, body: bytes = BODY, **more: Any) -> Try:
        pairs = list(good.items()) if headers is None else headers
        return Try(f"standard: {name}", more.pop("path", door), pairs, body, **more)

    yield one("a dry run made real", list(signed(key, BODY, id="dry_9", at=now).items()))
    yield one("a real one made dry", path=f"{door}?dry_run=true")
    yield one("both dry and real", path=f"{door}?dry_run=true&dry_run=true")
    yield one(
        "the preview's door without a preview",
        list(signed(keys.OTHER, BODY, id="p", at=now).items()),
        path="/hooks/careful",
    )
    yield one(
        "a made-up preview",
        list(signed(keys.OTHER, BODY, id="p", at=now).items()),
        path=f"/hooks/careful?preview_digest=sha256:{'0' * 64}",
    )
    yield one(
        "a broken preview",
        list(signed(keys.OTHER, BODY, id="p", at=now).items()),
        path="/hooks/careful?preview_digest=*",
    )
    used = signed(key, BODY, id="used", at=now)
    again = list(used.items())

    def before(house: House) -> None:
        house.ask("POST", door, again, BODY)

    yield one("a captured call again", again, after=before)
    yield one(
        "a captured call with its old secret",
        given(signed(keys.STANDARD_OLD, BODY, id="used", at=now)),
        after=before,
    )
    yield one(
        "a used id for other bytes",
        list(signed(key, b"{}", id="used", at=now).items()),
        b"{}",
        after=before,
    )


def githubs() -> Iterator[Try]:
    door = "/hooks/github"
    good = github(keys.GITHUB, BODY, id="d")
    sig = good["x-hub-signature-256"]
    digits = sig.removeprefix("sha256=")

    def one(name: str, headers: Pairs | None = None, body: bytes = BODY, **more: Any) -> Try:
        return Try(
            f"github: {name}",
            more.pop("path", door),
            list(good.items()) if headers is None else headers,
            body,
            **more,
        )

    def with_mac(key: bytes, how: Any = hashlib.sha256, body: bytes = BODY) -> str:
        return hmac.new(key, body, how).hexdigest()

    yield one("nothing", [])
    for name, forged in {
        "empty": "", "without its name": digits, "sha1 by name": f"sha1={digits}", "in capitals": sig.upper(),
        "capital digits": "sha256=" + digits.upper(), "SHA256": f"SHA256={digits}", "cut": sig[:-1], "right but for its end": sig[:-1] + ("0" if sig[-1] != "0" else "1"),
        "cut to none": "sha256=", "longer": sig + "0", "doubled": sig + sig, "listed": f"sha256={'0' * 64},{sig}",
        "with a blank": "sha256= " + digits, "quoted": f'"{sig}"', "zeros": "sha256=" + "0" * 64,
        "by sha1": "sha256=" + with_mac(keys.GITHUB.encode(), hashlib.sha1),
        "by sha512": "sha256=" + with_mac(keys.GITHUB.encode(), hashlib.sha512),
        "by a truncated sha512": "sha256=" + with_mac(keys.GITHUB.encode(), hashlib.sha512)[:64],
        "of an empty key": "sha256=" + with_mac(b""), "of a key with a line break": "sha256=" + with_mac(keys.GITHUB.encode() + b"\n"),
        "of half the key": "sha256=" + with_mac(keys.GITHUB.encode()[:14]),
        "of another's key": "sha256=" + with_mac(keys.STANDARD_NEW.encode()),
        "without a key": "sha256=" + hashlib.sha256(BODY).hexdigest(),
        "in base64": "sha256=" + b64(bytes.fromhex(digits)), "of nothing": "sha256=" + with_mac(keys.GITHUB.encode(), body=b""),
        "in wide digits": ("sha256=" + "０" * 64).encode(), "with a NUL": sig + "\0", "a wildcard": "sha256=*",
    }.items():  # fmt: skip
        yield one(f"signature {name}", given(good, **{"x-hub-signature-256": forged}))
    yield one("signature twice", [*good.items(), ("x-hub-signature-256", sig)])
    yield one(
        "only the old header",
        [("x-hub-signature", "sha1=" + with_mac(keys.GITHUB.encode(), hashlib.sha1))],
    )
    yield one("the new one in the old header", [("x-hub-signature", sig)])
    yield one("two deliveries", [*good.items(), ("x-github-delivery", "e")])
    yield one("an odd delivery", given(good, **{"x-github-delivery": "a b"}))
    for name, body in {"empty": b"", "other": b"{}", "longer": BODY + b"\n", "cut": BODY[:-1], "packed": gzip.compress(BODY),
                       "as a form": b"payload=" + quote(BODY).encode()}.items():  # fmt: skip
        yield one(f"body {name}", None, body)
    yield one("a dry run, which nobody signs here", path=f"{door}?dry_run=true")
    yield one(
        "standard's scheme with our secret",
        list(signed("whsec_" + b64(keys.GITHUB.encode()), BODY).items()),
    )

    def before(house: House) -> None:
        house.ask("POST", door, list(good.items()), BODY)

    yield one("a captured call again", after=before)
    yield one(
        "a captured call under another id", given(good, **{"x-github-delivery": "e"}), after=before
    )
    yield one(
        "a captured call without an id", given(good, **{"x-github-delivery": None}), after=before
    )
    yield one(
        "a used id for other bytes",
        list(github(keys.GITHUB, b"[]", id="d").items()),
        b"[]",
        after=before,
    )


def tokens() -> Iterator[Try]:
    door, push = "/events/gcs", json.dumps(keys.PUBSUB).encode()
    good = keys.google_token()
    head, payload, signature = good.split(".")
    now = int(time.time())
    other, pem = keys.rsa_key("stranger"), keys.public_pem(keys.rsa_key("google"))

    def unpadded(document: Any) -> str:
        raw = document if isinstance(document, bytes) else json.dumps(document).encode()
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    def hs256(key: bytes, kid: str = "g1") -> str:
        text = unpadded({"alg": "HS256", "typ": "JWT", "kid": kid}) + "." + payload
        return f"{text}.{unpadded(hmac.new(key, text.encode(), hashlib.sha256).digest())}"

    made: dict[str, str] = {
        "by a stranger's key": keys.google_token(other),
        "by a stranger under a kid of its own": keys.google_token(other, kid="x"),
        "without a kid": keys.google_token(kid=None),
        "kid up the tree": keys.google_token(other, kid="../../dev/null"),
        "kid with SQL": keys.google_token(other, kid="g1' OR '1'='1"),
        "kid empty": keys.google_token(kid=""),
        "jku of a stranger": keys.google_token(other, header={"jku": "https://evil.test/keys"}),
        "x5u of a stranger": keys.google_token(other, header={"x5u": "https://evil.test/cert"}),
        "jwk inside": keys.google_token(other, header={"jwk": keys.jwk(other, "g1")}),
        "crit": keys.google_token(header={"crit": ["exp"]}),
        "by RS384": keys.google_token(alg="RS384"),
        "by RS512": keys.google_token(alg="RS512"),
        "by PS256": keys.google_token(alg="PS256"),
        "by ES256 of a stranger": keys.google_token(keys.ec_key("stranger"), alg="ES256"),
        "by HS256 of the public key": hs256(pem),
        "by HS256 of the public key, stripped": hs256(pem.strip()),
        "by HS256 of the page of keys": hs256(keys.pages()[keys.GOOGLE_KEYS]),
        "by HS256 of nothing": hs256(b""),
        "by HS256 of a key in the set": hs256(base64.urlsafe_b64decode(keys.SHARED), "shared"),
        "for another audience": keys.google_token(aud="https://other.example"),
        "for an audience that begins so": keys.google_token(aud=keys.AUDIENCE + "/x"),
        "for an audience that ends so": keys.google_token(aud=keys.AUDIENCE[:-1]),
        "for several audiences": keys.google_token(aud=[keys.AUDIENCE, "https://other.example"]),
        "for a list of one": keys.google_token(aud=[keys.AUDIENCE]),
        "for nobody": keys.google_token(aud=None),
        "for the empty audience": keys.google_token(aud=""),
        "of another issuer": keys.google_token(iss="https://evil.test"),
        "of an issuer that begins so": keys.google_token(
            iss="https://accounts.google.com.evil.test"
        ),
        "of an issuer with a slash": keys.google_token(iss="https://accounts.google.com/"),
        "of no issuer": keys.google_token(iss=None),
        "of Entra": keys.entra_token(aud=keys.AUDIENCE),
        "ended": keys.google_token(iat=now - 7200, exp=now - 3600),
        "ended a minute ago": keys.google_token(exp=now - 60),
        "without an end": keys.google_token(exp=None),
        "of the future": keys.google_token(nbf=now + 600),
        "made in the future": keys.google_token(iat=now + 600),
        "without its time": keys.google_token(iat=None),
        "of another account": keys.google_token(email="other@project.iam.gserviceaccount.com"),
        "of an account in capitals": keys.google_token(email=keys.EMAIL.upper()),
        "of an account that begins so": keys.google_token(email=keys.EMAIL + ".evil.test"),
        "of no account": keys.google_token(email=None),
        "of a list of accounts": keys.google_token(email=[keys.EMAIL]),
        "of an unverified account": keys.google_token(email_verified=False),
        "of a nearly verified account": keys.google_token(email_verified="true"),
        "of nobody's verified account": keys.google_token(email_verified=None),
        "without its signature": f"{head}.{payload}.",
        "of two parts": f"{head}.{payload}",
        "of five parts": f"{head}.{payload}.{signature}.x.y",
        "with its payload changed": f"{head}.{unpadded({'aud': keys.AUDIENCE, 'email': keys.EMAIL})}.{signature}",
        "cut": good[:-4],
        "with more behind": good + "A",
        "with padding": good + "==",
        "with a blank": f"{good} x",
        "listed": f"{good}, {good}",
        "too long": good + "A" * 9000,
        "nothing": "",
        "a word": "true",
    }
    for word in ("none", "None", "NONE", "nOnE", "", "HS256 "):
        made[f"alg {word!r}"] = f"{unpadded({'alg': word, 'kid': 'g1'})}.{payload}."
        made[f"alg {word!r} with a signature"] = (
            f"{unpadded({'alg': word, 'kid': 'g1'})}.{payload}.{signature}"
        )
    made["alg left out"] = f"{unpadded({'kid': 'g1'})}.{payload}.{signature}"
    made["alg a list"] = f"{unpadded({'alg': ['RS256'], 'kid': 'g1'})}.{payload}.{signature}"
    made["kid a number"] = f"{unpadded({'alg': 'RS256', 'kid': 1})}.{payload}.{signature}"
    for name, token in made.items():
        yield Try(f"gcs: token {name}", door, [("authorization", f"Bearer {token}")], push)
    for name, headers, path in (
        ("nothing", [], door),
        ("token in the query", [], f"{door}?access_token={good}"),
        ("token as key", [], f"{door}?key={good}"),
        ("token in a cookie", [("cookie", f"token={good}")], door),
        ("token in x-goog-iap", [("x-goog-iap-jwt-assertion", good)], door),
        ("token twice", [("authorization", f"Bearer {good}")] * 2, door),
        ("token without its kind", [("authorization", good)], door),
        ("token as Basic", [("authorization", f"Basic {good}")], door),
        ("token for a proxy", [("proxy-authorization", f"Bearer {good}")], door),
        ("google's token at azure", [("authorization", f"Bearer {good}")], "/events/azure"),
        ("google's token at sns", [("authorization", f"Bearer {good}")], "/events/sns"),
        (
            "google's token at cloudevents",
            [("authorization", f"Bearer {good}")],
            "/events/cloudevents",
        ),
        ("google's token at a webhook", [("authorization", f"Bearer {good}")], "/hooks/standard"),
        (
            "google's user agent",
            [
                (
                    "user-agent",
                    "APIs-Google; (+https://developers.google.com/webmasters/APIs-Google.html)",
                )
            ],
            door,
        ),
    ):
        yield Try(f"gcs: {name}", path, headers, push)


def topics() -> Iterator[Try]:
    door = "/events/sns"

    def one(name: str, message: Any, headers: Pairs | None = None) -> Try:
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        return Try(f"sns: {name}", door, headers or [], raw)

    good = keys.notification()
    name = keys.CERT.rpartition("/")[2]
    for url in (
        f"http://sns.us-east-1.amazonaws.com/{name}", f"https://sns.us-east-1.amazonaws.com.evil.test/{name}",
        f"https://evil.test/{name}", f"https://sns.us-east-1.amazonaws.com@evil.test/{name}",
        f"https://evil.test@sns.us-east-1.amazonaws.com/{name}", f"https://u:p@sns.us-east-1.amazonaws.com/{name}",
        f"https://sns.us-east-1.amazonaws.com:8443/{name}", f"https://sns.us-east-1.amazonaws.com:443/{name}",
        f"https://evil.test/sns.us-east-1.amazonaws.com/{name}", f"https://sns.us-east-1.amazonaws.com./{name}",
        f"https://SNS.us-east-1.amazonaws.com/{name}", f"HTTPS://sns.us-east-1.amazonaws.com/{name}",
        f"https://sns.eu-west-1.amazonaws.com/{name}", f"https://sns.us-east-1.amazonaws.com.cn/{name}",
        f"https://xsns.us-east-1.amazonaws.com/{name}", f"https://sns-us-east-1.amazonaws.com/{name}",
        f"https://s3.us-east-1.amazonaws.com/{name}", f"https://sns.us-east-1.amazonaws.com/x/{name}",
        f"https://sns.us-east-1.amazonaws.com//{name}", f"https://sns.us-east-1.amazonaws.com/../{name}",
        f"https://sns.us-east-1.amazonaws.com/{name}?x=1", f"https://sns.us-east-1.amazonaws.com/{name}#x",
        f"https://sns.us-east-1.amazonaws.com\\@evil.test/{name}", f"https://sns.us-east-1.amazonaws.com%2eevil.test/{name}",
        f"https://sns.us-east-1.amazonaws.com%00.evil.test/{name}", f"https://sns.us-east-1.amazonaws.com\n/{name}",
        f" https://sns.us-east-1.amazonaws.com/{name}", f"//sns.us-east-1.amazonaws.com/{name}",
        f"https://sns.us-east-1.аmazonaws.com/{name}", f"https://sns.us-east-1。amazonaws.com/{name}",
        f"https://bucket.sns.us-east-1.amazonaws.com/{name}", "https://sns.us-east-1.amazonaws.com/?Action=GetX",
        "https://sns.us-east-1.amazonaws.com/evil.pem", f"https://sns.us-east-1.amazonaws.com/{name}.txt",
        f"https://127.0.0.1/{name}", f"https://169.254.169.254/{name}", f"https://[::1]/{name}",
        "file:///etc/ssl/cert.pem", "data:application/x-pem-file;base64,AAAA", "",
        keys.EXPIRED, keys.SMALL, keys.CURVED, keys.NO_CERT,
    ):  # fmt: skip
        signer: Any = keys.rsa_key("small", 1024) if url == keys.SMALL else keys.rsa_key("sns")
        signer = keys.ec_key("curved") if url == keys.CURVED else signer
        yield one(f"certificate at {url!r}", keys.notification(SigningCertURL=url, key=signer))
    for what, message in {
        "nothing": b"", "no JSON": b"x", "a list": [good], "a word": b'"x"',
        "by a stranger's key": keys.notification(key=keys.rsa_key("stranger")),
        "of another topic": keys.notification(TopicArn=keys.TOPIC + "2"),
        "of another account": keys.notification(TopicArn=keys.TOPIC.replace("123456789012", "210987654321")),
        "of a topic in capitals": keys.notification(TopicArn=keys.TOPIC.upper()),
        "of a topic with a blank": keys.notification(TopicArn=keys.TOPIC + " "),
        "without a signature": {k: v for k, v in good.items() if k != "Signature"},
        "with an empty signature": {**good, "Signature": ""},
        "with a signature that is null": {**good, "Signature": None},
        "with a signature that is no base64": {**good, "Signature": "*" + good["Signature"]},
        "with a signature that is cut": {**good, "Signature": good["Signature"][:-4]},
        "with a signature in a list": {**good, "Signature": [good["Signature"]]},
        "without a certificate": {k: v for k, v in good.items() if k != "SigningCertURL"},
        "with the other name of the certificate": {**{k: v for k, v in good.items() if k != "SigningCertURL"}, "SigningCertUrl": keys.CERT},
        "version 1 for 2": {**good, "SignatureVersion": "1"},
        "version 3": {**good, "SignatureVersion": "3"}, "version a number": {**good, "SignatureVersion": 2},
        "version none": {**good, "SignatureVersion": "none"}, "version empty": {**good, "SignatureVersion": ""},
        "with another message": {**good, "Message": good["Message"].replace("a.csv", "b.csv")},
        "with another id": {**good, "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf325"},
        "with another time": {**good, "Timestamp": "2026-01-01T12:00:01.000Z"},
        "with a subject more": {**good, "Subject": "x"},
        "with an empty subject": {**good, "Subject": ""},
        "without its subject": {k: v for k, v in keys.notification(Subject="x").items() if k != "Subject"},
        "subject moved into the id": {**{k: v for k, v in keys.notification(Subject="x").items() if k != "Subject"}, "MessageId": good["MessageId"] + "\nSubject\nx"},
        "id moved into the message": keys.notification(MessageId="x\ny"),
        "a time with a line break": keys.notification(Timestamp="2026-01-01T12:00:00.000Z\nTopicArn\nx"),
        "a subject with a line break": keys.notification(Subject="x\nTimestamp\ny"),
        "as a question": {**good, "Type": "SubscriptionConfirmation"},
        "of no type": {k: v for k, v in good.items() if k != "Type"}, "of another type": {**good, "Type": "notification"},
        "type a list": {**good, "Type": ["Notification"]},
        "a bare event of S3": keys.S3_EVENT,
        "a question of another topic": keys.question(TopicArn=keys.TOPIC + "2"),
        "a question by a stranger": keys.question(key=keys.rsa_key("stranger")),
        "a question with another token": {**keys.question(), "Token": "2337"},
        "a question with an odd token": keys.question(Token="2336&TopicArn=x"),
        "topic twice": json.dumps(good).replace('"Message":', f'"TopicArn": "{keys.TOPIC}2", "Message":').encode(),
        "message twice": (json.dumps(good)[:-1] + ', "Message": "{}"}').encode(),
    }.items():  # fmt: skip
        yield one(what, message)
    yield one("raw delivery", good, [("x-amz-sns-rawdelivery", "true")])
    yield one(
        "raw delivery of an event",
        keys.S3_EVENT,
        [("x-amz-sns-rawdelivery", "true"), ("x-amz-sns-topic-arn", keys.TOPIC)],
    )
    yield one(
        "sns by its user agent",
        keys.S3_EVENT,
        [("user-agent", "Amazon Simple Notification Service Agent")],
    )


def grids() -> Iterator[Try]:
    door, push = "/events/azure", json.dumps(keys.EVENT_GRID).encode()
    asking = json.dumps(keys.VALIDATION).encode()
    key = quote(keys.AZURE)
    for name, query in {
        "nothing": "", "empty": "?key=", "wrong": "?key=another%20key%20long%20enough", "cut": f"?key={key[:-1]}",
        "longer": f"?key={key}x", "with a line break": f"?key={key}%0a", "with a NUL": f"?key={key}%00",
        "in capitals": f"?key={key.upper()}", "twice": f"?key={key}&key={key}", "twice, differing": f"?key=x&key={key}",
        "as Key": f"?Key={key}", "as KEY": f"?KEY={key}", "as code": f"?code={key}", "as key[]": f"?key[]={key}",
        "encoded twice": f"?key={quote(key)}", "behind a semicolon": f"?x=1;key={key}", "behind a hash": f"#key={key}",
        "a wildcard": "?key=*", "the key id": "?key=default", "of github": f"?key={quote(keys.GITHUB)}",
    }.items():  # fmt: skip
        yield Try(f"azure: key {name}", door + query, [], push)
        yield Try(
            f"azure: handshake, key {name}",
            door + query,
            [("aeg-event-type", "SubscriptionValidation")],
            asking,
        )
    for header in (
        "aeg-sas-key",
        "aeg-sas-token",
        "authorization",
        "x-api-key",
        "x-headgate-key",
        "key",
        "cookie",
    ):
        yield Try(f"azure: key in {header}", door, [(header, keys.AZURE)], push)
    yield Try(
        "azure: key in the body",
        door,
        [],
        json.dumps([{**keys.EVENT_GRID[0], "key": keys.AZURE}]).encode(),
    )
    yield Try(
        "azure: origin without key",
        door,
        [("webhook-request-origin", "eventgrid.azure.net")],
        b"",
        "OPTIONS",
    )
    for name, token in {
        "by a stranger": keys.entra_token(keys.rsa_key("stranger")), "of another app": keys.entra_token(azp="x"),
        "of no app": keys.entra_token(azp=None), "of ours by its other name only": keys.entra_token(azp="x", appid=keys.APP),
        "of another tenant": keys.entra_token(iss="https://sts.windows.net/22222222-2222-3333-4444-555555555555/"),
        "for another": keys.entra_token(aud="api://out"), "ended": keys.entra_token(exp=int(time.time()) - 99),
        "of google": keys.google_token(aud="api://in"),
    }.items():  # fmt: skip
        yield Try(f"azure: token {name}", door, [("authorization", f"Bearer {token}")], push)


def events() -> Iterator[Try]:
    door, raw = "/events/cloudevents", json.dumps(keys.CLOUD_EVENT).encode()
    kind = ("content-type", "application/cloudevents+json")
    binary = [
        (f"ce-{k}", v) for k, v in keys.CLOUD_EVENT.items() if k not in ("data", "datacontenttype")
    ]
    good = signed(keys.EVENTS, raw, id="ce")
    data = b'{"order":7}'
    yield Try("cloudevents: unsigned", door, [kind], raw)
    yield Try(
        "cloudevents: binary, unsigned", door, [*binary, ("content-type", "application/json")], data
    )
    yield Try(
        "cloudevents: binary, body signed",
        door,
        [*binary, *signed(keys.EVENTS, data).items()],
        data,
    )
    yield Try(
        "cloudevents: one header more", door, [kind, *good.items(), ("ce-specversion", "1.0")], raw
    )
    yield Try("cloudevents: a subject more", door, [kind, *good.items(), ("ce-subject", "x")], raw)
    yield Try("cloudevents: data changed", door, [kind, *good.items()], raw.replace(b"7", b"8"))
    yield Try(
        "cloudevents: by a webhook's secret",
        door,
        [kind, *signed(keys.STANDARD_NEW, raw).items()],
        raw,
    )
    yield Try(
        "cloudevents: too old",
        door,
        [kind, *signed(keys.EVENTS, raw, at=time.time() - 400).items()],
        raw,
    )
    yield Try(
        "cloudevents: origin alone", door, [kind, ("webhook-request-origin", "events.example")], raw
    )
    yield Try(
        "cloudevents: unknown origin",
        door,
        [("webhook-request-origin", "evil.test")],
        b"",
        "OPTIONS",
    )
    yield Try(
        "cloudevents: origin that begins so",
        door,
        [("webhook-request-origin", "events.example.evil.test")],
        b"",
        "OPTIONS",
    )
    yield Try("cloudevents: no origin", door, [], b"", "OPTIONS")
    yield Try(
        "cloudevents: two origins",
        door,
        [("webhook-request-origin", "events.example")] * 2,
        b"",
        "OPTIONS",
    )
    yield Try(
        "cloudevents: signed event at the webhook", "/hooks/standard", [kind, *good.items()], raw
    )


FAMILIES = (standard, standard_modes, githubs, tokens, topics, grids, events)
ATTEMPTS = [(family, attempt.name) for family in FAMILIES for attempt in family()]
FRESH_SECONDS = 60
_made: dict[Any, tuple[float, dict[str, Try]]] = {}


def fresh(family: Callable[[], Iterator[Try]], name: str) -> Try:
    """The attempt as it is made now: what is signed is good for a few minutes only."""
    at, made = _made.get(family, (0.0, {}))
    if time.time() - at > FRESH_SECONDS:
        at, made = _made[family] = time.time(), {attempt.name: attempt for attempt in family()}
    return made[name]


def test_there_are_enough_of_them() -> None:
    """Names are told apart, and nobody took half of them out."""
    names = [name for _, name in ATTEMPTS]
    assert sorted(set(names)) == sorted(names)
    assert len(names) >= 400


@pytest.mark.parametrize(("family", "name"), ATTEMPTS, ids=[name for _, name in ATTEMPTS])
def test_no_way_around_the_proof(house: House, family: Any, name: str) -> None:
    """It is refused with a problem document, nothing is admitted, no stranger's host is asked."""
    attempt = fresh(family, name)
    if attempt.after is not None:
        attempt.after(house)
    before = house.holds()
    said = house.ask(attempt.method, attempt.path, attempt.headers, attempt.body)
    assert 400 <= said.status < 500, said.body
    assert said.json["type"] == f"urn:headgate:problem:{said.reason}"
    assert house.holds() == before
    assert set(house.web.asked) <= {*keys.pages()}
    if said.status == 401:
        assert "www-authenticate" in said.headers


def test_what_the_right_owners_send_is_let_in(house: House) -> None:
    """The attempts above fail for what was changed in them, and for nothing else."""
    raw = json.dumps(keys.CLOUD_EVENT).encode()
    sent: list[tuple[str, dict[str, str], bytes]] = [
        ("/hooks/standard", signed(keys.STANDARD_NEW, BODY, id="right"), BODY),
        ("/hooks/standard", signed(keys.STANDARD_OLD, BODY, id="right_too"), BODY),
        ("/hooks/github", github(keys.GITHUB, b"[1]", id="right"), b"[1]"),
        (
            "/events/gcs",
            {"authorization": f"Bearer {keys.google_token()}"},
            json.dumps(keys.PUBSUB).encode(),
        ),
        (f"/events/azure?key={quote(keys.AZURE)}", {}, json.dumps(keys.EVENT_GRID).encode()),
        (
            "/events/azure",
            {"authorization": f"Bearer {keys.entra_token()}"},
            json.dumps(keys.EVENT_GRID).encode(),
        ),
        ("/events/sns", {}, json.dumps(keys.notification()).encode()),
        ("/events/cloudevents", signed(keys.EVENTS, raw, id="right"), raw),
    ]
    before = house.holds()[0]
    for path, headers, body in sent:
        assert house.ask("POST", path, headers, body).status in (200, 202), path
    assert house.holds()[0] == before + len(sent)
