"""What a store in a bucket adds: uploads in parts, copies on this machine, refusals of a cloud."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.aws.emulator import Aws
from tests.net.faults import Faults, faults, refusal
from tests.stores.clouds import cloud_store, open_cloud

from headgate.errors import ConfigError, ObjectMissing, StoreUnavailable
from headgate.stores import Local, cache, open_store
from headgate.stores.cloud import CloudStore
from headgate.testing.expect import raised
from headgate.testing.stores import content, keep

MIB = 1 << 20

KEEP_LARGE = """
import sys
from tests.stores.clouds import open_cloud
store = open_cloud(sys.argv[1])
spool = store.spool()
for _ in range(40):
    spool.write(bytes(1 << 20))
print(spool.digest.hex(), flush=True)
store.keep(spool)
"""


@pytest.fixture
def proxy(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """S3 with a proxy in front of it that can be told to misbehave."""
    with faults(aws.endpoint) as state:
        monkeypatch.setenv("AWS_ENDPOINT_URL", state.endpoint)
        yield state


@pytest.fixture
def store(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CloudStore:
    return cloud_store(f"s3://{aws.bucket()}/lake", tmp_path / "cache", monkeypatch)


def bucket_of(store: CloudStore) -> str:
    return store.uri.split("/")[2]


def uploads(aws: Aws, store: CloudStore) -> list[str]:
    """Uploads that were begun and never finished."""
    said = aws.client("s3").list_multipart_uploads(Bucket=bucket_of(store))
    return [upload["Key"] for upload in said.get("Uploads", [])]


def copies(tmp_path: Path) -> set[str]:
    return {file.name for file in (tmp_path / "cache").glob("*/sha256/*/*")}


def test_objects_lie_where_a_folder_would_have_them(aws: Aws, store: CloudStore) -> None:
    """A bucket can be copied to a folder, or a folder to a bucket, and used as a store there."""
    digest = keep(store, b"rain")
    store.project({"ledger/anchor.json": b"{}"})
    said = aws.client("s3").list_objects_v2(Bucket=bucket_of(store))
    name = digest.hex()
    assert [one["Key"] for one in said["Contents"]] == [
        "lake/ledger/anchor.json",
        f"lake/staging/sha256/{name[:2]}/{name}",
    ]


def test_a_small_object_is_only_created(aws: Aws, proxy: Faults, store: CloudStore) -> None:
    """One request stores it; storing it again replaces nothing, so a version stays the only one."""
    aws.client("s3").put_bucket_versioning(
        Bucket=bucket_of(store), VersioningConfiguration={"Status": "Enabled"}
    )
    digest, _ = keep(store, b"rain"), keep(store, b"rain")
    said = aws.client("s3").list_object_versions(Bucket=bucket_of(store))
    assert len(said["Versions"]) == 1
    assert digest.hex() in said["Versions"][0]["Key"]


def test_a_server_without_create_only_writes_will_do(proxy: Faults, store: CloudStore) -> None:
    """Older servers that speak S3 refuse conditional writes; objects are kept all the same."""
    refused = [(501, refusal("NotImplemented", "A header you provided implies functionality"))]
    proxy.rule = lambda method, path: refused.pop() if method == "PUT" and refused else None
    assert store.check(keep(store, b"rain"))
    assert not refused


def test_an_object_of_the_wrong_size_is_replaced(aws: Aws, store: CloudStore) -> None:
    """What damage from outside left under a digest does not stay there."""
    name = sha256(b"rain").hexdigest()
    key = f"lake/staging/sha256/{name[:2]}/{name}"
    aws.client("s3").put_object(Bucket=bucket_of(store), Key=key, Body=b"ra")
    assert store.check(keep(store, b"rain"))


def test_kill_9_amid_a_large_object_leaves_nothing_to_see(
    aws: Aws, proxy: Faults, store: CloudStore
) -> None:
    """No half object under the digest; a sweep then takes the parts and the spool of the dead."""
    proxy.rule = lambda method, path: "hold" if "partNumber=3" in path else None
    child = subprocess.Popen(
        [sys.executable, "-c", KEEP_LARGE, store.uri], stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        digest = bytes.fromhex(child.stdout.readline())
        assert proxy.held.wait(60)
        child.kill()
    proxy.rule = lambda method, path: None
    assert not store.has(digest)
    assert list(store.digests()) == []
    assert len(uploads(aws, store)) == 1
    assert store.sweep(3600) == 0
    assert store.sweep(0) == 2
    assert uploads(aws, store) == []


def test_an_upload_that_is_refused_leaves_no_parts(
    aws: Aws, proxy: Faults, store: CloudStore
) -> None:
    """A part is refused: the upload is given up, its parts are gone, and so is the spool."""
    said = refusal("AccessDenied", "Access Denied")
    proxy.rule = lambda method, path: (403, said) if "partNumber=2" in path else None
    spool = store.spool()
    for _ in range(20):
        spool.write(bytes(MIB))
    error = raised(StoreUnavailable, lambda: store.keep(spool))
    assert error.reason == "permission"
    assert "AccessDenied" in str(error)
    assert not store.has(spool.digest)
    assert uploads(aws, store) == []
    assert not spool.path.exists()


def test_a_large_object_is_sent_once(proxy: Faults, store: CloudStore) -> None:
    """Keeping what is there already costs a question, not another upload."""
    digest = keep(store, bytes(20 * MIB))
    proxy.asked.clear()
    assert keep(store, bytes(20 * MIB)) == digest
    assert [method for method, _ in proxy.asked] == ["HEAD"]
    assert store.check(digest)


def test_what_was_kept_here_is_not_fetched_again(proxy: Faults, store: CloudStore) -> None:
    """The handler's file is the one that was just written: no bytes travel back."""
    digest = keep(store, b"rain")
    proxy.asked.clear()
    assert store.path(digest).read_bytes() == b"rain"
    assert proxy.asked == []
    assert not os.access(store.path(digest), os.W_OK) or os.geteuid() == 0


def test_a_file_from_the_bucket_has_the_digest_it_is_named_by(
    aws: Aws, store: CloudStore, tmp_path: Path
) -> None:
    """Bytes that were changed in the bucket are never handed to a handler as the object."""
    digest = keep(store, b"rain")
    elsewhere = CloudStore(store.uri, Local(str(tmp_path / "other machine")))
    assert elsewhere.path(digest).read_bytes() == b"rain"
    name = digest.hex()
    key = f"lake/staging/sha256/{name[:2]}/{name}"
    aws.client("s3").put_object(Bucket=bucket_of(store), Key=key, Body=b"rein")
    third = CloudStore(store.uri, Local(str(tmp_path / "third machine")))
    assert raised(StoreUnavailable, lambda: third.path(digest)).reason == "damaged_object"
    assert not third.check(digest)
    assert not any(file.is_file() and file.name != "lock" for file in
                   (tmp_path / "third machine").rglob("*"))  # fmt: skip


def test_copies_stay_below_their_limit(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest unused copies go first; what was just used stays, and all can be had again."""
    store = CloudStore(f"s3://{aws.bucket()}", Local(str(tmp_path / "cache"), 5 * MIB))
    digests = [keep(store, bytes([number]) * MIB) for number in range(12)]
    assert len(copies(tmp_path)) == 12  # all of them were used in the last minutes
    for age, digest in enumerate(reversed(digests), 1):
        os.utime(store.path(digest), times=(0, time.time() - age * 1000))
    assert store.path(digests[0]).exists()  # used again: the youngest now
    store.sweep(0)
    kept = {digest.hex() for digest in (digests[0], *digests[-4:])}
    assert copies(tmp_path) == kept
    assert store.path(digests[1]).read_bytes() == bytes([1]) * MIB
    monkeypatch.setattr(cache, "UNUSED_SECONDS", 1800.0)
    store.sweep(0)
    assert copies(tmp_path) == {digests[0].hex(), digests[1].hex(), digests[-1].hex()}


def test_a_deleted_object_leaves_no_copy(store: CloudStore, tmp_path: Path) -> None:
    """What was deleted is gone from this machine as well."""
    digest = keep(store, b"personal")
    store.delete(digest)
    assert copies(tmp_path) == set()
    raised(ObjectMissing, lambda: store.path(digest))


def test_a_stream_that_breaks_is_taken_up_again(proxy: Faults, store: CloudStore) -> None:
    """A connection that is cut amid a large object costs the rest of it, not all of it."""
    data = os.urandom(4 * MIB)
    digest = keep(store, data)
    cuts = ["cut", "cut"]
    proxy.rule = lambda method, path: cuts.pop() if method == "GET" and cuts else None
    assert content(store, digest) == data
    assert not cuts


@pytest.mark.parametrize(
    ("status", "code", "reason", "hint"),
    [
        (404, "NoSuchBucket", "no_such_bucket", "bucket"),
        (403, "AccessDenied", "permission", "cloud-stores"),
        (403, "InvalidAccessKeyId", "credentials", "AWS_PROFILE"),
        (403, "SignatureDoesNotMatch", "credentials", "credentials"),
        (400, "ExpiredToken", "credentials", "Renew"),
        (403, "RequestTimeTooSkewed", "clock_skew", "clock"),
        (400, "AuthorizationHeaderMalformed", "wrong_region", "AWS_REGION"),
        (301, "PermanentRedirect", "wrong_region", "AWS_REGION"),
    ],
)
def test_a_refusal_says_what_to_do(
    proxy: Faults, store: CloudStore, status: int, code: str, reason: str, hint: str
) -> None:
    """Whatever the cloud refuses, the operator reads why and what to do, and it is tried again."""
    proxy.rule = lambda method, path: (status, refusal(code))
    for act in (
        lambda: keep(store, b"rain"),
        lambda: list(store.digests()),
        lambda: store.read("ledger/anchor.json"),
    ):
        error = raised(StoreUnavailable, act)
        assert error.reason == reason
        assert hint in error.hint
        assert store.uri in str(error)


def test_a_sweep_that_may_not_look_for_uploads_says_so(proxy: Faults, store: CloudStore) -> None:
    """The right to list unfinished uploads is missing: that is said, with where the rights are."""
    proxy.rule = lambda method, path: (403, refusal("AccessDenied")) if "uploads" in path else None
    error = raised(StoreUnavailable, lambda: store.sweep(0))
    assert error.reason == "permission"
    assert "unfinished uploads" in str(error)


def test_a_bucket_that_is_not_there_is_said_to_be(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing bucket is an outage with a name. It is never "that object is not there"."""
    store = cloud_store("s3://no-such-bucket/lake", tmp_path, monkeypatch)
    digest = sha256(b"").digest()
    for act in (
        lambda: store.has(digest),
        lambda: store.open(digest),
        lambda: store.path(digest),
        lambda: keep(store, b"x"),
        lambda: keep(store, bytes(9 * MIB)),
        lambda: list(store.digests()),
        lambda: store.project({"a": b""}),
        lambda: store.read("a"),
    ):
        assert raised(StoreUnavailable, act).reason == "no_such_bucket"


def test_a_cloud_that_does_not_answer_is_an_outage(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens there: the store is unavailable, in words."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    store = cloud_store(f"s3://{aws.bucket()}", tmp_path, monkeypatch)
    error = raised(StoreUnavailable, lambda: store.has(sha256(b"").digest()))
    assert error.reason == "store_unavailable"
    assert "no connection" in str(error)


def test_secrets_stay_secret(
    proxy: Faults, store: CloudStore, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """No key, token or signature is in an error, in what it was caused by, in a repr or a log."""
    caplog.set_level(logging.DEBUG)
    secrets = ("hushhushhush", "tokentokentoken")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secrets[0])
    monkeypatch.setenv("AWS_SESSION_TOKEN", secrets[1])
    echoed = f"<StringToSign>{secrets[1]}</StringToSign>"
    proxy.rule = lambda method, path: (403, refusal("SignatureDoesNotMatch", "No.", echoed))
    mine = open_cloud(store.uri)
    said = [repr(mine), repr(mine._bucket), repr(mine._bucket.chain)]
    for act in (lambda: keep(mine, b"x"), lambda: mine.read("a"), lambda: mine.sweep(0)):
        error = raised(StoreUnavailable, act)
        said += [str(error), repr(error), repr(error.__cause__)]
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("headgate")]
    for secret in (*secrets, "Signature="):
        assert secret not in "\n".join(said + ours)


def test_no_credentials_is_said_before_anything_is_sent(
    proxy: Faults, store: CloudStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without credentials nothing is asked, and the error says where to get some."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = raised(StoreUnavailable, lambda: keep(store, b"x"))
    assert error.reason == "credentials"
    assert "aws sso login" in error.hint
    assert proxy.asked == []


@pytest.mark.parametrize(
    "uri",
    [
        "s3://", "s3:///x", "s3://b/a//c", "s3://b/../c", "s3://key:secret@bucket/x", "gs://b?x",
        "az://c@x/", "abfss://c@account/x", "abfss://c:pw@account.dfs.core.windows.net/x", "s3://b/\0",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused(uri: str) -> None:
    """A misspelt address is a question at the start, and a password in it is not repeated."""
    error = raised(ConfigError, lambda: open_store(uri))
    assert "s3://bucket/prefix" in error.hint
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/lake/", "s3://bucket/lake"),
        ("s3a://bucket/a b+%20", "s3://bucket/a b+%20"),
        ("gs://bucket/x", "gs://bucket/x"),
        ("az://container/x", "az://container/x"),
        ("abfss://c-1@acct.dfs.core.windows.net/x", "abfss://c-1@acct.dfs.core.windows.net/x"),
    ],
)
def test_a_store_is_known_by_one_uri(written: str, uri: str) -> None:
    """However it is written, the ledger knows a store by one name, and can open it by that."""
    assert open_store(written).uri == uri
    assert open_store(uri).uri == uri


def test_every_page_of_a_listing_is_read(store: CloudStore) -> None:
    """Three pages, the last with one of them: each digest once."""
    import asyncio

    names = [sha256(number.to_bytes(4, "big")).hexdigest() for number in range(2_001)]

    async def fill() -> None:
        free = asyncio.Semaphore(32)

        async def put(name: str) -> None:
            async with free:
                key = f"lake/staging/sha256/{name[:2]}/{name}"
                await store._bucket.client.put_async(key, b"x", use_multipart=False)

        await asyncio.gather(*map(put, names))

    asyncio.run(fill())
    listed = [digest.hex() for digest in store.digests()]
    assert len(listed) == 2_001
    assert set(listed) == set(names)
