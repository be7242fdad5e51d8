"""A bucket of S3, Google Cloud Storage or Azure, opened from how it is written.

    s3://BUCKET/PREFIX                                   credentials by `net/aws.py`
    gs://BUCKET/PREFIX                                   GOOGLE_… variables, or the machine's own
    az://CONTAINER/PREFIX                                the account by AZURE_STORAGE_ACCOUNT_NAME
    abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX

A key is taken as it is written: nothing is decoded. Requests that fail in a way that may pass are
repeated for some seconds; a connection that says nothing for a minute is given up. How long a whole
object may take is not limited here: that is the business of whoever reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headgate.errors import ConfigError

from . import aws

if TYPE_CHECKING:
    from obstore.store import AzureStore, ClientConfig, GCSStore, RetryConfig, S3Store

    Client = S3Store | GCSStore | AzureStore

CONNECT_SECONDS = 10
SILENT_SECONDS = 60
# Within these, a request is repeated; then the outage is somebody else's to wait for.
RETRIES = 5
RETRY_SECONDS = 45
WHOLE_OBJECT_HOURS = 24

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfss": "az", "abfs": "az"}
_FOR_OTHERS = ("obstore",)
_FOR_S3 = ("obstore", "botocore")
_URI = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<host>[^/?#]+)(?:/(?P<path>.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_DFS = re.compile(r"([a-z0-9]{3,24})\.(dfs|blob)\.(?:core\.[a-z.]+|[a-z.]+)")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a bucket is, and the part of it that is meant. `prefix` has no slash at its ends."""

    cloud: str
    bucket: str
    prefix: str
    account: str | None = None

    @property
    def root(self) -> str:
        """The bucket, as a uri."""
        if self.account is not None:
            return f"abfss://{self.bucket}@{self.account}.dfs.core.windows.net"
        return f"{self.cloud}://{self.bucket}"

    def uri(self, key: str = "") -> str:
        """The uri of a key of this bucket."""
        return f"{self.root}/{key}" if key else self.root


@dataclass(frozen=True, slots=True)
class Bucket:
    """An open bucket. Its client may be used by any number of threads."""

    address: Address
    client: Client = field(repr=False)
    chain: aws.Chain | None = field(default=None, repr=False)


def is_bucket(uri: str) -> bool:
    """Is this written like a place in one of the clouds?"""
    return uri.partition("://")[0].lower() in SCHEMES and "://" in uri


def parse(uri: str) -> Address:
    """Take a uri apart. Raises `ConfigError`."""
    found = _URI.fullmatch(uri)
    cloud = SCHEMES.get(found["scheme"].lower()) if found else None
    if found is None or cloud is None:
        raise _unusable(uri, "is not the address of a bucket")
    bucket, at, host = found["host"].partition("@")
    account = None
    if at:
        known = _DFS.fullmatch(host)
        # A password in a uri ends up in logs and in the ledger: there is no such form.
        if cloud != "az" or known is None or ":" in bucket:
            raise _unusable(uri.replace(found["host"], "…"), "has more than a bucket's name")
        account = known[1]
    if not _NAME.fullmatch(bucket):
        raise _unusable(uri, f"names no bucket: {bucket!r}")
    prefix = (found["path"] or "").strip("/")
    if "\0" in prefix or any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
        raise _unusable(uri, "has a prefix that cannot be used")
    return Address(cloud, bucket, prefix, account)


def require(address: Address) -> None:
    """Are the libraries here that this bucket needs? Raises `ConfigError`."""
    extra, needed = ("aws", _FOR_S3) if address.cloud == "s3" else ("cloud", _FOR_OTHERS)
    if any(find_spec(name) is None for name in needed):
        raise ConfigError(
            f"{address.uri()} needs libraries that are not installed",
            hint=f"in Headgate's checkout: pip install '.[{extra}]'",
        )


def open_bucket(address: Address) -> Bucket:
    """A client for the bucket; it has asked nobody yet. Raises `ConfigError`."""
    require(address)
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore, GCSStore

    try:
        match address.cloud:
            case "s3":
                return _s3(address)
            case "gs":
                client = GCSStore(address.bucket, client_options=_limits(), retry_config=_retries())
            case _:
                client = AzureStore(
                    address.bucket,
                    config={"account_name": address.account} if address.account else None,
                    client_options=_limits(),
                    retry_config=_retries(),
                )
    except (ValueError, BaseError) as error:
        raise ConfigError(
            f"{address.uri()} cannot be used as it is configured: {_first_line(error)}",
            hint="docs/how-to/cloud-stores.md names the variables each cloud reads.",
        ) from None
    return Bucket(address, client)


def _s3(address: Address) -> Bucket:
    from obstore.store import S3Store

    chain = aws.Chain()
    client = S3Store(
        address.bucket,
        # obstore reads variables of its own; what is said here counts, so that there is one answer.
        endpoint=chain.endpoint,
        aws_endpoint_url_s3=chain.endpoint,
        region=chain.region,
        virtual_hosted_style_request=False,
        skip_signature=False,
        credential_provider=chain,
        # One request per object works on every server that speaks S3.
        disable_bulk_delete=True,
        client_options=_limits(),
        retry_config=_retries(),
    )
    return Bucket(address, client, chain)


def _limits() -> ClientConfig:
    return {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=SILENT_SECONDS),
        "timeout": timedelta(hours=WHOLE_OBJECT_HOURS),
        # Plain http is used where an endpoint is written that way, and nowhere else.
        "allow_http": True,
        "user_agent": "headgate",
    }


def _retries() -> RetryConfig:
    return {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def _unusable(uri: str, why: str) -> ConfigError:
    return ConfigError(
        f"{uri} {why}",
        hint="As in s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or "
        "abfss://container@account.dfs.core.windows.net/prefix.",
    )
