"""What must not be read by whoever reads logs or quarantine."""

import json
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.mask import MASK, Masker, is_harmless, is_secret, mask, mask_text, preview

SECRET = st.text(ascii_letters + digits + "-_.~", min_size=12, max_size=60).map(lambda s: f"Zq7{s}")
NAMES = (
    "password", "PGPASSWORD", "db_passwd", "sslpassword", "token", "access_token", "X-Api-Key",
    "apiKey", "client_secret", "AWS_SECRET_ACCESS_KEY", "signature", "X-Amz-Signature", "cookie",
    "Authorization", "private_key",
)  # fmt: skip
PLACES = (
    "{name}={secret}",
    "{name}: {secret}",
    "{name} = '{secret}'",
    '{{"user": "me", "{name}": "{secret}", "n": 1}}',
    '{{"{name}":["{secret}","{secret}"]}}',
    "{{'{name}': '{secret} and more'}}",
    '{{\\"{name}\\": \\"{secret}\\"}}',
    "https://x.example/a?b=1&{name}={secret}&c=2",
    "{name}: Basic {secret}",
    "{name}: Bearer {secret}",
    "{name}=token {secret}",
    "<{name}>{secret}</{name}>",
    "tool --{name} {secret} --verbose",
)
SHAPES = (
    "postgresql://me:{secret}@db.example:5432/rain",
    "redis://:{secret}@cache",
    "https://me:{secret}@{secret}@host/path",
    "Bearer {secret}",
    "curl -H 'authorization: bearer {secret}'",
    "Set-Cookie: session={secret}; Path=/; Secure",
    "eyJhbGciOiJIUzI1NiJ9.{secret}.{secret}",
    "-----BEGIN RSA PRIVATE KEY-----\n{secret}\n{secret}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n{secret}",
)
AROUND = st.text(max_size=40)


@given(SECRET, st.sampled_from(NAMES), st.sampled_from(PLACES), AROUND, AROUND)
def test_what_is_called_a_secret_is_masked(
    secret: str, name: str, place: str, before: str, after: str
) -> None:
    """A password in a message is not read, whatever form and text it stands in."""
    text = f"{before}\n{place.format(name=name, secret=secret)}\n{after}"
    assert secret not in mask_text(text)


@given(SECRET, st.sampled_from(SHAPES), AROUND, AROUND)
def test_what_looks_like_a_secret_is_masked(
    secret: str, shape: str, before: str, after: str
) -> None:
    """A DSN, a bearer token or a private key is known by its shape, whatever it is called."""
    assert secret not in mask_text(f"{before}\n{shape.format(secret=secret)}\n{after}")


@pytest.mark.parametrize("key", ["AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18, "xoxb-" + "1a" * 12])
def test_keys_of_known_makes_are_masked(key: str) -> None:
    """A cloud or code host's key is masked in the middle of a sentence."""
    assert mask_text(f"denied for {key}, see log") == f"denied for {MASK}, see log"


@pytest.mark.parametrize(
    "text",
    [
        "entry 42 of rain finalized in 0.31 s",
        "s3://bucket/2024/05/rain.csv?versionId=abc",
        "http://host:8080/path?contact=a@b.example",
        "key=9f86d081884c7d65 idempotency_key=60303ae22b998861",
        "station,at,mm\nA,2024-05-01T00:00:00Z,3.5\n",
        "the compass of the author: Smith",
        "mail me@example.org",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Keys, addresses and rows remain readable: masking that hides everything is turned off."""
    assert mask_text(text) == text


@pytest.mark.parametrize("name", ["token", "accessToken", "X-API-KEY", "Set-Cookie", "PGPASSWORD"])
def test_values_under_a_secret_name_are_masked_whole(name: str) -> None:
    """It does not matter what the value looks like, or how deep it is."""
    value = {"rows": [{name: {"inner": "plain"}, "n": 1}]}
    assert mask(value) == {"rows": [{name: MASK, "n": 1}]}


def test_names_of_ours_are_no_secrets() -> None:
    """The fields we log by are never masked."""
    ours = ("key", "idempotency_key", "entry", "run", "pipeline", "author", "compass", "design")
    assert not [name for name in ours if is_secret(name)]


def test_a_secret_that_is_not_set_is_shown_as_such() -> None:
    """`password: null` is a finding, not a secret."""
    assert mask({"password": None}) == {"password": None}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=64),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=30,
)


@given(ANYTHING)
def test_anything_can_be_masked_and_written_as_json(value: object) -> None:
    """No value a handler logs can break the log."""
    json.dumps(mask(value), allow_nan=False)


def test_hostile_values_are_bounded() -> None:
    """A value without end, a value that refuses to be shown and a huge one cost one short line."""

    class Rude:
        def __str__(self) -> str:
            raise RuntimeError("no")

    endless: list[object] = []
    endless.append(endless)
    value = [endless, Rude(), "x" * 10_000_000, dict.fromkeys(range(100_000), 1)]
    assert len(json.dumps(mask(value))) < 20_000


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "piece", ["eyJ-", "a://a:", "password", 'token="', "<secret", "--token", "\\"]
)
def test_no_text_takes_long_to_mask(piece: str) -> None:
    """A payload made to trip the rules costs no more than its length."""
    mask_text(piece * 30_000)


@given(st.binary(max_size=3000) | st.text(max_size=3000).map(str.encode), st.integers(1, 600))
def test_a_preview_is_printable_and_bounded(data: bytes, limit: int) -> None:
    """A payload cannot write to the terminal of whoever looks at quarantine, nor fill it."""
    shown = preview(data, limit)
    assert len(shown) <= limit
    assert all(c.isprintable() or c in "\n\t" for c in shown)


@pytest.mark.parametrize("place", SHAPES + PLACES)
def test_a_preview_never_shows_a_piece_of_a_secret(place: str) -> None:
    """Cutting a payload in the middle of a password does not uncover its first half."""
    hidden = place.format(name="password", secret="Zq7mDp2xVb9LkW4s")
    # What is masked shrinks, and so brings the far end of what is looked at into view.
    long = "token='" + "x" * 4400 + "' "
    for offset in range(190, 290):
        payload = f"{long}{'a' * offset} {hidden}{' b' * 5000}"
        assert "Zq7" not in preview(payload.encode(), 600), offset


def test_a_preview_shows_the_beginning() -> None:
    """Enough is shown to see which file it was."""
    assert preview(b"station,mm\nA,3.5\n") == "station,mm\nA,3.5\n"
    assert preview("\ufeffé\x1b[31m".encode()) == "é\\x1b[31m"
    assert preview(b"\xff\xfe" + "password=hunter2".encode("utf-16-le")) == "password=***"
    assert preview(b"PAR1\0\0\x15") == "binary, 7 bytes, beginning with 50 41 52 31 00 00 15"
    assert preview(b"a" * 10_000).endswith("… (10000 bytes)")


def test_a_pipelines_own_mask_comes_on_top() -> None:
    """The author knows what is sensitive here; both are applied, everywhere."""
    masker = Masker(lambda text: text.replace("Alice", "<name>"))
    assert masker.text("Alice password=x") == "<name> password=***"
    assert masker.mask({"who": ["Alice"]}) == {"who": ["<name>"]}
    assert masker.preview(b"Alice") == "<name>"


def test_a_mask_that_fails_shows_nothing() -> None:
    """A bug in the author's mask must not uncover what it was to hide."""

    def broken(text: str) -> str:
        raise KeyError(text)

    shown = Masker(broken).text("Alice")
    assert "Alice" not in shown
    assert "KeyError" in shown


@pytest.mark.parametrize(
    "text",
    ["1@file:///incoming/00368.bin", "mail rain@station.example", "s3://lake/a@b.csv", "@"],
)
def test_an_at_sign_alone_hides_nothing(text: str) -> None:
    """Only what stands between a scheme and a host can be a password."""
    assert is_harmless(text)
    assert mask_text(text) == text


@pytest.mark.parametrize("text", ["ftp://rain:pour@host/a", "x FTP://rain:p@ur@host", "a://:b@"])
def test_what_ends_with_an_at_sign_is_looked_at(text: str) -> None:
    """The quick look misses nothing that the rules would mask."""
    assert not is_harmless(text)
    assert mask_text(text) != text
