"""The queues that Terraform makes are the queues that the retry policy needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scripts.queue_policy import policy

from headgate.model.queue_plan import ADMISSION_SECONDS, LONGEST_VISIBILITY_SECONDS
from headgate.model.verdict import UPSTREAM
from headgate.settings import Settings

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "infra" / "terraform" / "messaging"
FILES = sorted(MODULE.glob("*.tf"))
TEXT = "\n".join(re.sub(r"^\s*#.*$", "", file.read_text(), flags=re.M) for file in FILES)
TERRAFORM = shutil.which("terraform") or shutil.which("tofu")
needs_terraform = pytest.mark.skipif(
    TERRAFORM is None, reason="NOT TESTED: neither terraform nor tofu is installed"
)


def terraform(folder: Path, *words: str, told: str = "") -> subprocess.CompletedProcess[str]:
    assert TERRAFORM is not None
    environment = {"CHECKPOINT_DISABLE": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        [TERRAFORM, *words],
        cwd=folder,
        env=environment,
        input=told,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_numbers_are_those_of_the_code() -> None:
    """Whoever changes the retry policy changes the queues with it."""
    assert (MODULE / "policy.json").read_text() == policy(), (
        "run: .venv/bin/python scripts/queue_policy.py > infra/terraform/messaging/policy.json"
    )


def test_the_numbers_keep_the_rules() -> None:
    """The rules of the contract, said once more without the code that computes them."""
    plans = json.loads((MODULE / "policy.json").read_text())
    for name, plan in plans.items():
        assert plan["max_receive_count"] > UPSTREAM.attempts, name
        assert plan["visibility_seconds"] > 6 * ADMISSION_SECONDS, name
        assert plan["visibility_seconds"] <= LONGEST_VISIBILITY_SECONDS, name
        assert plan["retention_seconds"] > UPSTREAM.budget_seconds, name
        assert plan["dead_letter_retention_seconds"] > plan["retention_seconds"], name
    longest = Settings.deadline_seconds + UPSTREAM.cap_seconds
    assert plans["finalized"]["visibility_seconds"] > longest
    tries = plans["lambda"]["max_receive_count"] * plans["lambda"]["visibility_seconds"]
    assert tries >= UPSTREAM.budget_seconds


def test_no_number_of_the_policy_is_typed_again() -> None:
    """Visibility, receives, retention and thresholds come from policy.json alone."""
    settings = (
        "visibility_timeout_seconds",
        "message_retention_seconds",
        "receive_wait_time_seconds",
        "maxReceiveCount",
        "threshold",
    )
    for name in settings:
        values = re.findall(rf"^\s*{name}\s*=\s*(.+)$", TEXT, re.M)
        assert values, name
        assert all(value.startswith("local.policy.") for value in values), (name, values)


def test_everything_named_is_declared_and_everything_declared_is_used() -> None:
    """A misspelt reference is found without a provider."""
    declared = {
        *(f"{kind}.{name}" for kind, name in re.findall(r'^resource "(\w+)" "(\w+)"', TEXT, re.M)),
        *(f"data.{k}.{name}" for k, name in re.findall(r'^data "(\w+)" "(\w+)"', TEXT, re.M)),
        *(f"var.{name}" for name in re.findall(r'^variable "(\w+)"', TEXT, re.M)),
    }
    locals_ = re.findall(r"^locals \{\n(.*?)^\}", TEXT, re.M | re.S)
    declared |= {f"local.{n}" for part in locals_ for n in re.findall(r"^  (\w+)\s+=", part, re.M)}
    named = set(re.findall(r"\b(?:var|local|(?:data\.)?aws_\w+)\.\w+", TEXT))
    assert named <= declared, sorted(named - declared)
    settable = {name for name in declared if name.startswith(("var.", "local."))}
    assert settable <= named, sorted(settable - named)


def test_every_alarm_links_to_a_runbook_that_is_there() -> None:
    """Who is woken finds the page that says what to do."""
    alarms = re.findall(r'^resource "aws_cloudwatch_metric_alarm"', TEXT, re.M)
    links = re.findall(r"Runbook: \$\{var\.runbooks_url\}/([\w-]+)\.html", TEXT)
    assert alarms
    assert len(links) == len(alarms)
    for name in links:
        assert (ROOT / "docs" / "runbooks" / "reliability" / f"{name}.md").is_file(), name


def test_every_queue_and_topic_refuses_what_is_not_encrypted_on_the_way() -> None:
    """There is a policy for each of them, and each says TLS only."""
    places = len(re.findall(r'^resource "aws_(?:sqs_queue|sns_topic)" ', TEXT, re.M))
    policies = len(
        re.findall(r'^resource "aws_(?:sqs_queue_policy|sns_topic_policy)" ', TEXT, re.M)
    )
    assert places == policies == len(re.findall(r'"aws:SecureTransport"', TEXT))


@needs_terraform
def test_the_files_are_formatted() -> None:
    """`terraform fmt` has nothing to say, which also means that it could read them."""
    done = terraform(MODULE, "fmt", "-check", "-diff")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_terraform
@pytest.mark.parametrize("consumer", ["admitted", "finalized", "lambda"])
def test_terraform_reads_the_policy_as_it_was_written(tmp_path: Path, consumer: str) -> None:
    """Each way to consume gets its own numbers, in Terraform's own words."""
    found = evaluate(tmp_path, "local.policy", consumer=consumer)
    assert found == json.loads(policy())[consumer]


@needs_terraform
def test_a_fifo_queue_has_a_group_for_each_prefix(tmp_path: Path) -> None:
    """One for everything unless they are named; a standard queue has none."""
    both = "[local.fifo_groups, local.eventbridge_types]"
    types = ["Object Created", "Object Deleted"]
    assert evaluate(tmp_path, both, fifo="true", prefix="in/") == [{"all": "in/"}, types]
    named = {"north": "n/", "south": "s/"}
    assert evaluate(tmp_path, both, fifo="true", fifo_groups=json.dumps(named)) == [named, types]
    created = json.dumps(["s3:ObjectCreated:Put"])
    assert evaluate(tmp_path, both, events=created) == [{}, ["Object Created"]]


@needs_terraform
def test_numbers_of_a_pipeline_can_be_handed_in(tmp_path: Path) -> None:
    """A policy file of one's own wins over the defaults; a wrong consumer is refused."""
    own = tmp_path / "own.json"
    own.write_text('{"admitted": {"visibility_seconds": 7}}')
    assert evaluate(tmp_path, "local.policy.visibility_seconds", policy_file=str(own)) == 7
    with pytest.raises(AssertionError, match='Use "admitted", "finalized" or "lambda"'):
        evaluate(tmp_path, "local.policy", consumer="nobody")


def evaluate(folder: Path, expression: str, **variables: str) -> Any:
    """What an expression of the module comes to, in its part that needs no provider."""
    for name in ("policy.tf", "variables.tf", "policy.json"):
        shutil.copy(MODULE / name, folder)
    given = {"name": "rain", "bucket": "b", "runbooks_url": "https://d.example", **variables}
    options = [f"-var={name}={value}" for name, value in given.items()]
    said = terraform(folder, "console", *options, told=f"jsonencode({expression})")
    assert said.returncode == 0, said.stderr
    return json.loads(json.loads(said.stdout))
