"""What a pipeline expects of its sources, and whether they keep it."""

from __future__ import annotations

from tests.cli.conftest import Headgate

PIPELINE = """
import headgate as hg


class Events:
    name, provider = "rain-events", "s3"
    queue, dead_letters, suffix, ack = "rain-events", None, ".csv", "admitted"

    def check(self): pass
    def owns(self, uri): return uri.startswith("s3://")
    def fetch(self, envelope): return []
    def read(self, delivery, received_at): return []


print("imported")
rain = hg.Pipeline("rain", sources=[Events()], store="lake/")
files = hg.Pipeline("files", sources=[hg.Directory("incoming/")], store="lake/")
"""


def test_the_contract_of_each_source_for_programs_and_people(bare: Headgate) -> None:
    """Nothing but JSON on stdout, whatever the file prints."""
    (bare.folder / "rain.py").write_text(PIPELINE)
    rain, files = bare("contract", "show", "rain.py", "--json").json["pipelines"]
    assert files["ingestion_contract"][0]["queue"] is None
    (contract,) = rain["ingestion_contract"]
    assert contract["transport"] == ["SQS (standard): rain-events"]
    assert contract["queue"]["max_receive_count"] > contract["retry"]["attempts"]
    said = bare("contract", "show", "rain.py", "--pipeline", "rain")
    assert "at-least-once (duplicates & out-of-order possible)" in said.out
    assert "polled" not in said.out


def test_the_settings_of_a_queue_can_be_handed_to_terraform(bare: Headgate) -> None:
    """One pipeline at a time: two would have two opinions."""
    (bare.folder / "rain.py").write_text(PIPELINE)
    said = bare("contract", "show", "rain.py", "--pipeline", "rain", "--queue-policy")
    assert set(said.json) == {"admitted", "finalized", "lambda"}
    several = bare("contract", "show", "rain.py", "--queue-policy")
    assert several.code == 2
    assert "--pipeline NAME" in several.err
    assert bare("contract", "show", "rain.py", "--pipeline", "snow").code == 2


def test_the_doctor_looks_at_the_sources_of_a_pipeline(bare: Headgate) -> None:
    """A folder that is not there, a queue without credentials: each with the way out."""
    (bare.folder / "rain.py").write_text(PIPELINE)
    away = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}
    away |= {"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_REGION": "eu-central-1"}
    said = bare("doctor", "rain.py", "--json", **away)
    assert said.code == 1
    found = [(c["name"], c["state"]) for c in said.json["checks"]]
    assert found[-3:] == [("source", "ok"), ("credentials", "fail"), ("source", "fail")]
    assert all(c["hint"] for c in said.json["checks"] if c["state"] == "fail")
