"""Three questions, three keys: told already, same bytes, same work."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.envelope import Envelope, ordinal
from headgate.model.identity import (
    SAFE_INTEGER,
    EffectKey,
    canonical,
    change_key,
    effect_key,
    fingerprint,
    is_newer,
    occurrence,
    params_digest,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)

texts = st.text(st.characters(exclude_categories=("Cs",)))
integers = st.integers(-SAFE_INTEGER, SAFE_INTEGER)
names = st.text(st.characters(max_codepoint=127))
documents = st.recursive(
    st.none() | st.booleans() | integers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(names, inner),
)


def told(**fields: Any) -> Envelope:
    return Envelope(
        **{
            "event_id": "e1",
            "source": "test",
            "provider": "s3",
            "detector": "event",
            "uri": "s3://bucket/key",
            "event_time": NOON,
            "received_at": NOON,
            **fields,
        }
    )


def work(**parts: Any) -> bytes:
    return effect_key(
        **{
            "pipeline": "rain",
            "version": "1",
            "uri": "file:///a",
            "generation": "1",
            "content": b"\1" * 32,
            "params": b"\2" * 32,
            **parts,
        }
    )


@given(documents)
def test_our_canonical_json_is_rfc_8785(document: Any):
    """A key can be computed by anyone who has the standard: the bytes are exactly the same."""
    assert canonical(document) == rfc8785.dumps(document)


@pytest.mark.parametrize(
    "text",
    [*map(chr, range(32)), "\x7f", '"', "\\", "/", "\u2028", "\ufeff", "é", "e\u0301", "𝄞", "😀"],
)
def test_every_odd_character_is_written_as_rfc_8785_does(text: str):
    """Control characters, quotes, separators and astral characters, in values and in names."""
    assert canonical([text]) == rfc8785.dumps([text])
    if text.isascii():
        assert canonical({text: 1, "a": 2, "Z": 3}) == rfc8785.dumps({text: 1, "a": 2, "Z": 3})


@given(st.dictionaries(names, integers), st.randoms())
def test_the_order_in_which_a_mapping_was_filled_does_not_matter(document: Any, chance: Any):
    """The same facts in another order are the same facts."""
    shuffled = list(document.items())
    chance.shuffle(shuffled)
    assert canonical(document) == canonical(dict(shuffled))


@given(texts, texts)
def test_text_moved_from_one_field_to_another_makes_another_key(uri: str, event: str):
    """`a:b` + `c` and `a` + `b:c` are different changes, whatever separators they contain."""
    here, there = told(uri="u" + uri, event_id="e" + event), told(uri="u", event_id="e")
    assert (change_key(here) == change_key(there)) == (not uri and not event)
    joined = uri + event
    moved = [told(uri="u" + joined[:n], event_id="e" + joined[n:]) for n in range(len(joined) + 1)]
    assert len({change_key(e) for e in moved}) == len(moved)


@given(st.lists(texts, min_size=2, max_size=2, unique=True))
def test_every_part_of_an_effect_key_counts(pair: list[str]):
    """Two works that differ in one thing the result depends on are two works."""
    one, other = pair
    for part in ("pipeline", "version", "uri", "generation", "task", "operation"):
        assert work(**{part: one}) != work(**{part: other})
    for part in ("dataset", "partition", "period"):
        assert len({work(**{part: one}), work(**{part: other}), work()}) == 3
    for part in ("content", "params"):
        assert work(**{part: one.encode()}) != work(**{part: other.encode()})


@given(texts, texts, texts, st.binary(), st.binary())
def test_the_key_of_a_pipelines_work_is_the_one_anyone_computes(
    version: str, uri: str, generation: str, content: bytes, params: bytes
):
    """Rendering what all entries share once changes nothing in what is hashed."""
    generation = generation.encode().hex()
    quick = EffectKey(pipeline="rain", version=version, params=params)
    assert quick(uri, generation, content) == work(
        version=version, uri=uri, generation=generation, content=content, params=params
    )


@given(texts, texts)
def test_a_change_key_is_the_hash_of_its_canonical_document(uri: str, event: str):
    """Anyone who has the standard can compute it."""
    envelope = told(uri="u" + uri, event_id="e" + event)
    document = rfc8785.dumps({"uri": envelope.uri, "occurrence": ["event", envelope.event_id]})
    assert change_key(envelope) == hashlib.sha256(b"headgate:change:1\0" + document).digest()


def test_an_effect_key_cannot_be_made_by_swapping_two_parts():
    """A dataset called like another's partition is not that partition."""
    assert work(dataset="a", partition="b") != work(dataset="b", partition="a")
    assert work(pipeline="1", version="rain") != work()
    assert work(content=b"\2" * 32, params=b"\1" * 32) != work()


def test_a_key_of_one_kind_is_never_one_of_another(monkeypatch: pytest.MonkeyPatch):
    """The same document under two questions gives two keys: a domain stands in front of it."""
    hashed: list[bytes] = []

    class Recorder:
        def __init__(self, data: bytes) -> None:
            hashed.append(data)

        def digest(self) -> bytes:
            return b""

    monkeypatch.setattr("hashlib.sha256", Recorder)
    change_key(told())
    work()
    params_digest({})
    prefixes = [data.partition(b"\0")[0] for data in hashed]
    assert prefixes == [b"headgate:change:1", b"headgate:effect:1", b"headgate:params:1"]
    assert all(json.loads(data.partition(b"\0")[2]) is not None for data in hashed)


@given(texts.filter(bool), texts.filter(bool))
def test_an_etag_alone_never_makes_a_key(one: str, other: str):
    """The same event under another ETag is the same one; the same ETag may be another event's."""
    for field in ("etag", "md5", "version_hint"):
        assert change_key(told(**{field: one})) == change_key(told(**{field: other}))
        assert change_key(told(**{field: one})) != change_key(told(**{field: one}, event_id="e2"))


def test_a_then_b_then_a_again_are_three_changes():
    """Whatever the source orders by, the second A is not the first one told again."""
    for field, values in (
        ("generation", (1, 2, 3)),
        ("sequence", ("1", "2", "3")),
        ("event_id", ("x", "y", "z")),
    ):
        changes = [
            told(**{field: v}, etag=e, md5=e) for v, e in zip(values, ("A", "B", "A"), strict=True)
        ]
        assert len({change_key(c) for c in changes}) == 3


def test_a_redelivery_has_the_key_of_the_first_delivery():
    """It arrives later, and by another way, and is still the same change."""
    first = told(sequence="7", event_id="a", received_at=NOON)
    again = told(sequence="7", event_id="b", received_at=NOON + timedelta(days=1), trace="t")
    assert change_key(first) == change_key(again)
    assert fingerprint(first) == fingerprint(again)


def test_the_strongest_thing_the_source_says_is_the_occurrence():
    """An immutable version, else a number the source or the ledger gave it, else the event."""
    everything: dict[str, Any] = {"version_id": "v", "generation": 2, "sequence": "9"}
    assert occurrence(told(**everything, strength="immutable")) == ("version", "v")
    assert occurrence(told(**everything)) == ("generation", 2)
    assert occurrence(told(sequence="9", version_id="v")) == ("sequence", "9")
    assert occurrence(told(version_id="null", strength="strong")) == ("event", "e1")
    assert occurrence(told()) == ("event", "e1")


def test_the_kinds_of_occurrence_do_not_meet():
    """Version "1", sequence "1", generation 1 and event "1" of one uri are four changes."""
    changes = [
        told(version_id="1", strength="immutable"),
        told(sequence="1"),
        told(generation=1),
        told(event_id="1"),
    ]
    assert len({change_key(c) for c in changes}) == 4


@pytest.mark.parametrize(
    "other",
    [{"kind": "removed"}, {"etag": "b"}, {"version_id": "w"}, {"md5": "c"}, {"size": 4},
     {"data": b"y"}, {"data": b""}, {"data": None}, {"etag": None}],
)  # fmt: skip
def test_a_repeated_delivery_that_says_something_else_is_noticed(other: dict[str, Any]):
    """The same key with another payload is a conflict, and what it is about shows."""
    first = {"etag": "a", "version_id": "v", "md5": "m", "size": 3, "data": b"x"}
    assert fingerprint(told(**first)) != fingerprint(told(**{**first, **other}))


@given(st.binary(), texts, st.integers(0))
def test_a_fingerprint_fits_a_bigint(data: bytes, etag: str, size: int):
    """The ledger keeps it in eight bytes, with a sign."""
    assert -(2**63) <= fingerprint(told(data=data, etag=etag, size=size % 2**53)) < 2**63


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)


def typed(value: Any) -> Any:
    """A value such that two are equal only if they are the same to a JSON reader with floats."""
    if isinstance(value, dict):
        return ("mapping", sorted((k, typed(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("list", [typed(v) for v in value])
    return (type(value).__name__, repr(value))


@given(st.dictionaries(texts, values, max_size=4), st.dictionaries(texts, values, max_size=4))
def test_parameters_have_one_digest_each(one: dict[str, Any], other: dict[str, Any]):
    """Other parameters are another work, and the same ones are the same work."""
    same = repr(typed(one)) == repr(typed(other))
    assert (params_digest(one) == params_digest(other)) == same


def test_parameters_that_only_look_alike_differ():
    """A number is not its text, nor a mapping that spells out how we write it."""
    alike: list[Any] = [
        2**60, str(2**60), {"int": str(2**60)}, 1, 1.0, "1", True, None, [], {}, [1], {"1": 1},
        "1.0", {"float": "1.0"}, NOON, NOON.isoformat(), {"datetime": NOON.isoformat()},
    ]  # fmt: skip
    assert len({params_digest({"p": value}) for value in alike}) == len(alike)
    assert params_digest({"p": (1, 2)}) == params_digest({"p": [1, 2]})


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"a": {"b": [1, {2}]}}, r"params\.a\.b\[1\] is a set"),
        ({"a": bytearray(b"x")}, r"params\.a is a bytearray"),
        ({"a": object()}, r"params\.a is a object"),
        ({"a": {1: 2}}, r"params\.a has the name 1"),
        ({"a": ["\ud800"]}, r"params\.a\[0\] has half a surrogate"),
        ({"a": {"\udfff": 1}}, r"params\.a has half a surrogate"),
    ],
)
def test_a_parameter_that_cannot_be_hashed_is_named(params: Any, named: str):
    """The message says which one, wherever it hides."""
    with pytest.raises(TypeError, match=named):
        params_digest(params)


def test_the_sources_own_order_decides_where_there_is_one():
    """A higher sequence is newer though its clock is behind; an equal one is not newer."""
    late, early = NOON + timedelta(hours=1), NOON
    assert is_newer("2", early, 1, "1", late, 9)
    assert not is_newer("1", late, 9, "2", early, 1)
    assert not is_newer("2", late, 9, "2", early, 1)


def test_without_a_sequence_time_decides_and_then_admission():
    """An old version delivered late is stale; of two at one time the later admitted is newer."""
    later = NOON + timedelta(seconds=1)
    assert is_newer(None, later, 1, None, NOON, 2)
    assert not is_newer(None, NOON, 2, None, later, 1)
    assert is_newer(None, NOON, 2, "9", NOON, 1)
    assert not is_newer("9", NOON, 1, None, NOON, 2)
    assert not is_newer(None, NOON, 1, None, NOON, 1)


def test_a_listing_and_the_events_of_a_bucket_do_not_count_alike():
    """What a poll noticed after a lost event is newer by its time, whatever its number."""
    later = NOON + timedelta(seconds=1)
    assert is_newer("~0000000000000000002", later, 2, "0062E99A88DC407460", NOON, 1)
    assert not is_newer("0062E99A88DC407460", NOON, 2, "~0000000000000000002", later, 1)
    assert not is_newer("~0000000000000000001", later, 2, "~0000000000000000002", NOON, 1)


@given(st.integers(0, 10**19 - 1), st.integers(0, 10**19 - 1))
def test_numbers_of_a_source_sort_as_text(one: int, other: int):
    """9 comes before 10 in the ledger too."""
    assert (ordinal(one) < ordinal(other)) == (one < other)
    assert (ordinal(one) == ordinal(other)) == (one == other)


@pytest.mark.parametrize("number", [-1, 10**19])
def test_a_number_that_would_sort_wrongly_is_refused(number: int):
    """Better no sequence than one that lies."""
    with pytest.raises(ValueError, match="outside"):
        ordinal(number)
