"""Azure Blob Storage by Event Grid, in both schemas."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.parse.documents import THEN_AT, blob, cloudevent, grid, one, read, refused

from headgate.model.envelope import Envelope
from headgate.model.identity import change_key, occurrence
from headgate.model.parse import Handshake

URI = "https://acct.blob.core.windows.net/rain/in/a%20b.csv"
VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"


def as_cloudevent(kind: str = "Microsoft.Storage.BlobCreated", **more: Any) -> dict[str, Any]:
    source = "/subscriptions/s/resourceGroups/g/providers/x/storageAccounts/acct"
    subject = "/blobServices/default/containers/rain/blobs/in/a b.csv"
    return cloudevent(kind, id="eg-1", source=source, subject=subject, data=blob(**more))


def test_both_schemas_tell_the_same():
    e = one([grid()])
    assert (e.provider, e.kind, e.source) == ("azure", "created", "azure:BlobCreated")
    assert (e.uri, e.event_id, e.size) == (URI, "eg-1", 17)
    assert (e.etag, e.strength, e.content_type) == ("0x8DC69C3B2D0F7A1", "strong", "text/csv")
    assert (e.event_time, occurrence(e)[0]) == (THEN_AT, "sequence")
    assert one(grid()) == e == one(as_cloudevent()) == one([as_cloudevent()])


def test_a_delete_is_removed():
    assert one([grid("Microsoft.Storage.BlobDeleted")]).kind == "removed"


def test_a_rename_is_two_changes():
    """The one is gone, the other is there; each has its own key."""
    urls = {"sourceUrl": URI, "destinationUrl": URI.replace("a%20b", "c"), "url": None}
    for document in (
        grid("Microsoft.Storage.BlobRenamed", blob(**urls)),
        as_cloudevent("Microsoft.Storage.BlobRenamed", **urls),
    ):
        gone, there = read(document).records
        assert isinstance(gone, Envelope)
        assert isinstance(there, Envelope)
        assert (gone.kind, gone.uri) == ("removed", URI)
        assert (there.kind, there.uri) == ("created", URI.replace("a%20b", "c"))
        assert change_key(gone) != change_key(there)


def test_two_doors_to_one_blob_are_one_uri_and_a_signature_is_not_kept():
    """The data lake's end point, capitals in the host, a query: the same blob."""
    for url in (
        "https://ACCT.blob.core.windows.net/rain/in/a%20b.csv?sv=1&sig=secret",
        "https://acct.dfs.core.windows.net/rain/in/a%20b.csv",
    ):
        assert one(grid(data=blob(url=url))).uri == URI
    other = "https://acct.blob.core.windows.net/rain/in/x.dfs.y"
    assert one(grid(data=blob(url=other))).uri == other


def test_the_handshake_is_answered_with_its_code():
    """Event Grid asks before it sends anything."""
    asked = {"validationCode": "512d38b6", "validationUrl": "https://x.example/validate?id=1"}
    told = read([grid(VALIDATION, asked)], provider="azure")
    assert told.handshake == Handshake("512d38b6", "https://x.example/validate?id=1")
    assert told.records == []
    assert refused([grid(VALIDATION, {"a": 1})]) == ("missing_field", "[0].data.validationCode")


@pytest.mark.parametrize(
    "kind", ["BlobTierChanged", "DirectoryCreated", "LifecyclePolicyCompleted"]
)
def test_what_is_not_about_a_blob_is_ignored(kind: str):
    assert read([grid(f"Microsoft.Storage.{kind}")]).ignored == [f"azure:Microsoft.Storage.{kind}"]
    assert read(as_cloudevent(f"Microsoft.Storage.{kind}")).ignored


@pytest.mark.parametrize(
    ("event", "reason", "field"),
    [
        (grid("Microsoft.Storage.BlobEaten"), "unknown_event", "[0].eventType"),
        (grid() | {"metadataVersion": "2"}, "unknown_version", "[0].metadataVersion"),
        (grid() | {"eventTime": "x"}, "bad_time", "[0].eventTime"),
        (grid() | {"id": ""}, "missing_field", "[0].id"),
        (grid() | {"data": 5}, "wrong_type", "[0].data"),
        (grid(data=blob(url=None)), "missing_field", "[0].data.url"),
        (grid(data=blob(url="https://evil.example/rain/a")), "bad_key", "[0].data.url"),
        (grid(data=blob(url="s3://rain/a")), "bad_key", "[0].data.url"),
        (grid(data=blob(url="http://[")), "bad_key", "[0].data.url"),
        (grid(data=blob(url=URI + "%FF")), "bad_key", "[0].data.url"),
        (grid(data=blob(url=URI + "%00")), "nul", "[0].data.url"),
        (grid(data=blob(url=URI + "a" * 2000)), "uri_too_long", "[0].data.url"),
        (grid(data=blob(sequencer="0" * 200)), "too_long", "[0].data.sequencer"),
        (grid(data=blob(contentLength=-1)), "out_of_range", "[0].data.contentLength"),
    ],
)
def test_what_is_wrong_is_named_and_the_others_are_read(event: Any, reason: str, field: str):
    assert refused([event], provider="azure") == (reason, field)
    told = read([event, grid()])
    assert [type(r).__name__ for r in told.records] == ["Refused", "Envelope"]
