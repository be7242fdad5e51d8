"""What obstore cannot say to S3: keys exactly as they are, and uploads that were never finished.

obstore tidies names: `/a` and `a/` become `a`, which is another object, and one `a//b` in a bucket
fails its whole listing. S3 allows all of these, consoles make `a/`, and producers make `a//b`. So
buckets of S3 are listed by botocore, and what obstore cannot name is read by it as well.
"""

# botocore and aiobotocore come without types.
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from .refusals import Kind, Refusal, classify

CHUNK_BYTES = 1 << 20


class S3Refused(Exception):
    """Raised in here only; `net/objects.py` turns it into an error of Headgate."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.said)
        self.refusal = refusal


def pages(client: Any, bucket: str, prefix: str) -> Iterator[list[dict[str, Any]]]:
    """Every page of a listing, whole. A listing that breaks off is an error, never an end."""
    token: str | None = None
    while True:
        more = {"ContinuationToken": token} if token else {}
        with _refusing():
            page = client.list_objects_v2(Bucket=bucket, Prefix=prefix, **more)
        yield cast("list[dict[str, Any]]", page.get("Contents", []))
        token = page.get("NextContinuationToken")
        if not page.get("IsTruncated"):
            return
        if not token:
            raise S3Refused(
                Refusal(Kind.AWAY, "the listing breaks off without saying how to go on", None)
            )


def chunks(
    client: Any, bucket: str, key: str, version: str | None, etag: str | None
) -> Iterator[bytes]:
    """An object's bytes in pieces. The first piece is asked for at once, by the first `next`."""
    wanted = {"VersionId": version} if version else {}
    if etag:
        wanted["IfMatch"] = etag
    with _refusing():
        answer = client.get_object(Bucket=bucket, Key=key, **wanted)
    body = answer["Body"]
    try:
        while True:
            with _refusing():
                chunk = cast("bytes", body.read(CHUNK_BYTES))
            if not chunk:
                return
            yield chunk
    finally:
        body.close()


def abort_unfinished(client: Any, bucket: str, prefix: str, older_than_seconds: float) -> int:
    """Abort uploads under `prefix` that were begun that long ago and never finished; how many."""
    before = datetime.now(UTC) - timedelta(seconds=older_than_seconds)
    aborted = 0
    with _refusing():
        for page in client.get_paginator("list_multipart_uploads").paginate(
            Bucket=bucket, Prefix=prefix
        ):
            for upload in page.get("Uploads", []):
                if upload["Initiated"] <= before:
                    client.abort_multipart_upload(
                        Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                    aborted += 1
    return aborted


@contextmanager
def _refusing() -> Generator[None]:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except ClientError as error:
        said = cast("dict[str, Any]", error.response)
        about = said.get("Error", {})
        status = said.get("ResponseMetadata", {}).get("HTTPStatusCode")
        raise S3Refused(classify(None, status, about.get("Code"), about.get("Message"))) from None
    except NoCredentialsError:
        raise S3Refused(
            classify(Kind.CREDENTIALS, None, None, "no credentials for AWS were found")
        ) from None
    except BotoCoreError as error:
        raise S3Refused(classify(None, None, None, None, type(error).__name__)) from None
