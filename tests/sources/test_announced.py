"""The object a notification names is found in its bucket."""

from __future__ import annotations

import pytest
from tests.world import change

from headgate.errors import ObjectMissing
from headgate.net import buckets
from headgate.sources.announced import fetch, root_of


@pytest.mark.parametrize(
    ("uri", "cloud", "bucket"),
    [
        ("s3://in/a%20b.csv", "s3", "in"),
        ("gs://in/a.csv", "gs", "in"),
        ("abfss://in@acct.dfs.core.windows.net/a.csv", "az", "in"),
    ],
)
def test_the_bucket_of_an_announced_object_can_be_opened(uri: str, cloud: str, bucket: str) -> None:
    """What `model/uri` writes, `net/buckets` reads."""
    address = buckets.parse(root_of(uri))
    assert (address.cloud, address.bucket, address.prefix) == (cloud, bucket, "")


def test_what_is_no_object_of_a_bucket_is_not_read() -> None:
    """An address that came with data is no way to the inside."""
    with pytest.raises(ObjectMissing):
        fetch(change("a"))
