"""`headgate envelope parse`: a line for each record, an exit code that says whether all is well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.cli.conftest import Headgate
from tests.model.parse.documents import grid, pushed, record, records, sns

GOOD = orjson.dumps(records(record("a+b.csv"), record("c.csv")))
TEST = b'{"Event":"s3:TestEvent","Bucket":"rain"}'


def write(folder: Path, content: bytes) -> str:
    (folder / "told.json").write_bytes(content)
    return "told.json"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_record_is_a_line(bare: Headgate):
    """With bucket, key and the key that tells whether it was told before."""
    said = bare("envelope", "parse", write(bare.folder, GOOD))
    assert said.code == 0
    first, second = lines(said.out)
    assert (first["bucket"], first["key"], first["uri"]) == (
        "rain",
        "a b.csv",
        "s3://rain/a%20b.csv",
    )
    assert len(str(first["idempotency_key"])) == 64
    assert first["idempotency_key"] != second["idempotency_key"]


def test_a_document_may_fill_many_lines_and_a_line_may_be_a_document(bare: Headgate):
    """Which one it is, is seen."""
    pretty = orjson.dumps(orjson.loads(GOOD), option=orjson.OPT_INDENT_2)
    said = bare("envelope", "parse", write(bare.folder, b"\n" + pretty + b"\n"))
    assert (said.code, len(lines(said.out))) == (0, 2)
    several = [GOOD, TEST, b"", orjson.dumps(sns(records(record()))), orjson.dumps(pushed())]
    said = bare("envelope", "parse", write(bare.folder, b"\n".join(several)))
    assert (said.code, len(lines(said.out))) == (0, 5)
    assert {"test": "s3:TestEvent"} in lines(said.out)


def test_a_refusal_names_its_reason_and_its_field_and_the_exit_code_is_one(bare: Headgate):
    """The others are printed all the same."""
    bad = b'{"Records":[%b,{"eventVersion":"3.0"}]}' % orjson.dumps(record())
    said = bare("envelope", "parse", write(bare.folder, b"\n".join([bad, b'{"a":NaN}', GOOD])))
    assert said.code == 1
    _, missing, hostile, *good = lines(said.out)
    assert missing["refused"]["reason"] == "missing_field"
    assert missing["refused"]["field"].startswith("Records[1].")
    assert hostile["refused"]["reason"] == "not_a_number"
    assert (hostile["refused"]["field"], len(hostile["refused"]["sha256"])) == ("a", 64)
    assert len(good) == 2


def test_what_is_ignored_and_what_is_asked_is_shown(bare: Headgate):
    asked = grid("Microsoft.EventGrid.SubscriptionValidationEvent", {"validationCode": "c0de"})
    told = [orjson.dumps([asked]), orjson.dumps(records(record(name="ObjectTagging:Put")))]
    said = bare("envelope", "parse", write(bare.folder, b"\n".join(told)))
    assert said.code == 0
    assert lines(said.out) == [
        {"handshake": {"code": "c0de", "url": None}},
        {"ignored": "s3:ObjectTagging:Put"},
    ]


def test_a_provider_takes_only_its_own(bare: Headgate):
    said = bare("envelope", "parse", write(bare.folder, GOOD), "--provider", "gcs")
    assert said.code == 1
    assert lines(said.out)[0]["refused"]["reason"] == "unknown_shape"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("told.json", "--provider", "ftp"), "s3, minio, sns, eventbridge, gcs, azure"),
        (("nowhere.json",), "nowhere.json"),
        ((), "FILE"),
    ],
)
def test_asking_wrongly_is_two(bare: Headgate, args: tuple[str, ...], text: str):
    """And says what there is."""
    write(bare.folder, GOOD)
    said = bare("envelope", "parse", *args)
    assert (said.code, said.out) == (2, "")
    assert text in said.err


def test_a_file_of_any_size_is_read_line_by_line(bare: Headgate):
    """What is above the limit is refused, and what follows is read."""
    huge = b'{"k":"' + b"x" * 3_000_000 + b'"}'
    said = bare("envelope", "parse", write(bare.folder, b"\n".join([TEST, huge, GOOD])))
    assert said.code == 1
    reasons = [line.get("refused", {}).get("reason") for line in lines(said.out)]
    assert reasons == [None, "too_large", None, None]
    said = bare("envelope", "parse", write(bare.folder, huge))
    assert lines(said.out)[0]["refused"]["reason"] == "too_large"


def test_nothing_is_a_refusal_too(bare: Headgate):
    said = bare("envelope", "parse", write(bare.folder, b""))
    assert (said.code, lines(said.out)[0]["refused"]["reason"]) == (1, "empty")


def test_it_reads_what_is_piped_in(bare: Headgate):
    process = bare.start("envelope", "parse", "-", stdin=-1)
    out, err = process.communicate(GOOD.decode())
    assert (process.returncode, err, len(lines(out))) == (0, "", 2)
