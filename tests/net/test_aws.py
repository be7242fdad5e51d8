"""One chain of credentials for everything: what gives the aws command rights gives us rights."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.aws.emulator import Aws

from headgate.errors import ConfigError, Unavailable
from headgate.net import aws as chain_of_aws
from headgate.net.aws import Chain
from headgate.net.objects import objects_at
from headgate.testing.expect import raised

# A helper program, as SSO tools and vaults bring them: each time it is asked it gives another key.
HELPER = """
import json, pathlib, sys
asked = pathlib.Path(sys.argv[1])
number = len(asked.read_text()) if asked.exists() else 0
asked.write_text("x" * (number + 1))
print(json.dumps({"Version": 1, "AccessKeyId": f"KEY{number}", "SecretAccessKey": "hush",
                  "SessionToken": "token", "Expiration": sys.argv[2]}))
"""


@pytest.fixture
def no_keys(aws: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing in its variables but a profile to be written; where it is read."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    config = tmp_path / "config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    return config


def credentials() -> object:
    return Chain()()


def helper(folder: Path, until: datetime) -> str:
    script = folder / "helper.py"
    script.write_text(HELPER)
    return f"{sys.executable} {script} {folder / 'asked'} {until.isoformat()}"


def test_variables_lead_to_the_endpoint_and_its_region(aws: Aws) -> None:
    """AWS_ENDPOINT_URL and AWS_REGION are honoured, and keys are those of the environment."""
    chain = Chain()
    assert (chain.endpoint, chain.region) == (aws.endpoint, aws.region)
    assert chain()["access_key_id"] == "test"


def test_an_endpoint_for_s3_alone_counts_for_s3(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_ENDPOINT_URL_S3 beats AWS_ENDPOINT_URL."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000")
    assert Chain().endpoint == "http://127.0.0.1:9000"


def test_a_profile_gives_region_endpoint_and_keys(
    no_keys: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_PROFILE is enough: region, endpoint and a helper program come from its file."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    until = datetime.now(UTC) + timedelta(hours=1)
    no_keys.write_text(
        f"[profile lake]\nregion = {aws.region}\nendpoint_url = {aws.endpoint}\n"
        f"credential_process = {helper(no_keys.parent, until)}\n"
    )
    chain = Chain()
    assert (chain.endpoint, chain.region) == (aws.endpoint, aws.region)
    given = chain()
    assert (given["access_key_id"], given.get("token")) == ("KEY0", "token")
    bucket = aws.bucket()
    aws.client("s3").put_object(Bucket=bucket, Key="a", Body=b"rain")
    assert b"".join(objects_at(f"s3://{bucket}").read("a")) == b"rain"


def test_keys_that_end_are_renewed(no_keys: Path) -> None:
    """Keys about to expire are replaced before they do; the next request has new ones."""
    until = datetime.now(UTC) + timedelta(minutes=5)
    no_keys.write_text(f"[profile lake]\ncredential_process = {helper(no_keys.parent, until)}\n")
    chain = Chain()
    assert chain()["access_key_id"] != chain()["access_key_id"]
    lent_until = chain()["expires_at"]
    assert lent_until is not None
    assert lent_until < datetime.now(UTC) + timedelta(minutes=7)


def test_another_region_is_named_as_the_cause(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket of another region is no riddle: the error says what to set."""
    bucket = aws.bucket()
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    error = raised(Unavailable, lambda: list(objects_at(f"s3://{bucket}").read("a")))
    assert error.reason == "wrong_region"
    assert "AWS_REGION" in error.hint


def test_a_role_is_assumed(no_keys: Path, aws: Aws) -> None:
    """A profile that names a role gets that role's keys, by way of its source profile."""
    no_keys.write_text(
        "[profile base]\naws_access_key_id = test\naws_secret_access_key = test\n"
        "[profile lake]\nregion = eu-central-1\nsource_profile = base\n"
        "role_arn = arn:aws:iam::000000000000:role/reader\n"
    )
    given = Chain()()
    assert given["access_key_id"] != "test"
    assert given.get("token")


def test_a_profile_that_is_not_there_is_named(no_keys: Path) -> None:
    """A misspelt profile is a mistake, not an outage."""
    no_keys.write_text("")
    error = raised(ConfigError, credentials)
    assert "lake" in str(error)
    assert "AWS_PROFILE" in error.hint


def test_keys_that_come_late_are_found(no_keys: Path, aws: Aws) -> None:
    """Without keys it says how to get some; after `aws sso login` it goes on, without a restart."""
    no_keys.write_text(f"[profile lake]\nregion = {aws.region}\n")
    objects = objects_at(f"s3://{aws.bucket()}")
    for read in (lambda: list(objects.pages()), lambda: list(objects.read("a"))):
        error = raised(Unavailable, read)
        assert error.reason == "credentials"
        assert "aws sso login" in error.hint
    until = datetime.now(UTC) + timedelta(hours=1)
    with no_keys.open("a") as config:
        config.write(f"credential_process = {helper(no_keys.parent, until)}\n")
    assert list(objects.pages()) == [[]]


def test_a_helper_that_fails_is_not_quoted(no_keys: Path) -> None:
    """What a credential helper prints when it fails may be secret; it is not repeated."""
    no_keys.write_text(
        "[profile lake]\ncredential_process = "
        f"{sys.executable} -c 'import sys; sys.exit(\"hush\")'\n"
    )
    error = raised(Unavailable, credentials)
    assert error.reason == "credentials"
    assert "hush" not in f"{error}{error.hint}{error.__cause__}"


async def test_queues_and_buckets_are_asked_as_the_same_identity(aws: Aws) -> None:
    """The session for asyncio finds the same endpoint, region and keys."""
    session = chain_of_aws.session()
    async with session.create_client("sts") as sts:
        assert sts.meta.endpoint_url == aws.endpoint
        assert sts.meta.region_name == aws.region
        assert (await sts.get_caller_identity())["Account"]
    keys = await session.get_credentials()
    assert keys.access_key == Chain()()["access_key_id"]


def test_heavy_libraries_wait_until_they_are_needed() -> None:
    """Opening a store by name imports neither botocore nor obstore."""
    code = (
        "import sys, json; from headgate.stores import open_store; open_store('s3://bucket/x').uri;"
        "print(json.dumps([m for m in ('botocore', 'obstore', 'aiobotocore') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_a_missing_library_names_the_extra() -> None:
    """Without the extra, the error is the command that installs it."""
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name: None if name == 'obstore' else find(name)\n"
        "from headgate.errors import ConfigError\n"
        "from headgate.stores import open_store\n"
        "for uri in ('s3://bucket/x', 'gs://bucket/x'):\n"
        "    try: open_store(uri)\n"
        "    except ConfigError as error: print(error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "in Headgate's checkout: pip install '.[aws]'",
        "in Headgate's checkout: pip install '.[cloud]'",
    ]
