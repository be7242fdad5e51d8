"""AWS: one chain of credentials, one region, one endpoint, whoever asks.

botocore knows every way a machine can be given rights: variables, profiles, SSO, roles (also by web
identity, as on Kubernetes), containers, instances. Queues ask it directly; obstore, which moves the
bytes of buckets, is handed botocore's credentials each time it needs some. What works for the `aws`
command works here, for everything alike.
"""

# botocore and aiobotocore come without types.
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from headgate.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from obstore.store import S3Credential

CONNECT_SECONDS = 10
READ_SECONDS = 60
ATTEMPTS = 5

# botocore alone would not look at AWS_REGION, which containers and functions of AWS have.
_VARIABLES = {"region": ("region", ["AWS_REGION", "AWS_DEFAULT_REGION"], None, None)}
# obstore lets go of credentials five minutes before they end. So it comes back every minute, and
# whether it is time for new ones is botocore's decision.
_LENT = timedelta(minutes=6)

NO_CREDENTIALS = (
    "Set AWS_PROFILE, log in (aws sso login), give this machine a role, or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
)


def session() -> Any:
    """An `AioSession`: its clients find credentials, region and endpoint by themselves."""
    try:
        from aiobotocore.session import AioSession
    except ImportError:
        raise missing_extra() from None
    return AioSession(session_vars=_VARIABLES)


def missing_extra() -> ConfigError:
    """What is said where AWS is asked for and its libraries are not there."""
    return ConfigError(
        "AWS needs libraries that are not installed",
        hint="in Headgate's checkout: pip install '.[aws]'",
    )


class Chain:
    """What obstore needs to know of AWS, as botocore knows it: where S3 is, and credentials.

    Nothing is looked up before the first request. Safe for threads.
    """

    def __init__(self) -> None:
        # With keys that are never used botocore does not go looking for some now.
        about = _client(_blocking_session(), "s3", aws_access_key_id="-", aws_secret_access_key="-")
        self.endpoint = cast("str", about.meta.endpoint_url)
        self.region = cast("str", about.meta.region_name)
        # obstore tells of an error in here only as text; whoever reports it asks for `failure`.
        self.failure: ConfigError | Unavailable | None = None
        self._client: Any = None
        self._credentials: Any = None
        self._lock = Lock()

    def __call__(self) -> S3Credential:
        """Credentials for the next minute."""
        with self._lock:
            try:
                lent = self._lend()
            except (ConfigError, Unavailable) as error:
                self.failure = error
                raise
            self.failure = None
            return lent

    @property
    def client(self) -> Any:
        """A botocore client for what obstore cannot say. Raises `ConfigError`, `Unavailable`."""
        with self._lock:
            self._find()
            return self._client

    def _find(self) -> None:
        if self._credentials is not None:
            return
        # A session remembers what it read: one that found nothing would find nothing for ever, and
        # so would its client.
        anew = _blocking_session()
        with _configured("s3"):
            found = anew.get_credentials()
        if found is None:
            raise Unavailable(
                "no credentials for AWS were found", reason="credentials", hint=NO_CREDENTIALS
            )
        self._client, self._credentials = _client(anew, "s3"), found

    def _lend(self) -> S3Credential:
        self._find()
        with _configured("s3"):
            keys = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + _LENT,
        }

    def __repr__(self) -> str:
        return f"<Chain {self.endpoint} {self.region}>"


def _blocking_session() -> Any:
    try:
        from botocore.session import Session
    except ImportError:
        raise missing_extra() from None
    return Session(session_vars=_VARIABLES)


def _client(made: Any, service: str, **keys: str) -> Any:
    from botocore.config import Config

    limits = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        s3={"addressing_style": "path"},
    )
    with _configured(service):
        return made.create_client(service, config=limits, **keys)


@contextmanager
def _configured(service: str) -> Generator[None]:
    """What botocore cannot use or cannot get, as an error of ours."""
    from botocore import exceptions as its

    mistakes = (
        its.ProfileNotFound,
        its.NoRegionError,
        its.InvalidConfigError,
        its.ConfigParseError,
    )
    try:
        yield
    except (*mistakes, ValueError) as error:
        raise ConfigError(
            f"AWS {service} cannot be used as it is configured: {error}",
            hint="Look at AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL and ~/.aws/config.",
        ) from None
    except its.BotoCoreError as error:
        # Only its kind: the text of some carries what a helper program printed.
        raise Unavailable(
            f"credentials for AWS cannot be had: {type(error).__name__}",
            reason="credentials",
            hint=NO_CREDENTIALS,
        ) from None
