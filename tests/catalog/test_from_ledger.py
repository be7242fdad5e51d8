"""Records of what really happened: rendered from a ledger, and as valid as those made by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict
from urllib.parse import unquote, urlsplit

import jsonschema
import pystac
from pystac.validation.stac_validator import JsonSchemaSTACValidator
from tests.catalog import public, rdf
from tests.catalog.test_openlineage import facets, validate
from tests.catalog.test_prov import violations
from tests.catalog.test_run_files import SCHEMAS
from tests.world import World

import headgate as hg
from headgate.catalog import dcat, openlineage, prov, run, stac
from headgate.catalog.facets import OURS
from headgate.catalog.hrefs import StaticHrefs, item_name
from headgate.ledger import facts, revert
from headgate.model.facts import Facts

POINT = b'{"type": "Point", "coordinates": [10.75, 59.91]}'


class Place(TypedDict):
    kind: str
    at: float


def places(world: World) -> hg.Pipeline:
    """A pipeline with everything: a source, a check, rows, an artifact, a dataset."""
    about = hg.Dataset("places", title="Places", license="CC-BY-4.0", publisher="Us")
    p = world.pipeline(dataset=about, sources=[world.directory()], removed="remove")

    @p.validate
    def is_point(obj: hg.Object) -> None:
        if b"Point" not in obj.read():
            raise hg.Permanent("not a point")

    @p.rows("place", key="kind", schema=Place)
    def rows(obj: hg.Object) -> Iterator[Place]:
        yield {"kind": json.loads(obj.read())["type"], "at": 10.75}

    @p.transform
    def capitals(obj: hg.Object) -> dict[str, bytes]:
        return {"capitals é.txt": obj.read().upper()}

    return p


def check(told: Facts) -> None:
    """Every document about a run, by every schema and shape at hand."""
    made = run.files(told)
    for name, schema in SCHEMAS.items():
        if name in made:
            jsonschema.Draft202012Validator(public.ours(schema)).validate(json.loads(made[name]))
    bundle = rdf.graph(prov.bundle(told), "prov/x")
    rdf.check(bundle, public.SHAPES / "prov.ttl")
    assert list(violations(bundle)) == []
    for event in openlineage.events(told):
        for name, said in facets(event):
            if name in OURS or public.SHARED.is_dir():
                validate(said, said["_schemaURL"])


async def test_every_record_of_a_life_is_valid(world: World) -> None:
    """Published, replaced, refused, taken back, removed: each run tells its story."""
    p = places(world)
    world.put("oslo 1.geojson", POINT)
    await world.run(p)
    world.put("oslo 1.geojson", POINT.replace(b"59.91", b"59.92"))
    await world.run(p)
    world.put("bad.geojson", b"{}")
    await world.run(p)
    (head,) = await facts.heads(world.db, 1, 0, 10)
    await revert.ask(world.db, head.entry, because="it was wrong", actor="anna")
    await world.run(p)
    (head,) = await facts.heads(world.db, 1, 0, 10)

    item = stac.item([head], StaticHrefs())
    pystac.Item.from_dict(item)
    JsonSchemaSTACValidator().validate_core(item, pystac.STACObjectType.ITEM, "1.1.0")
    assert item["geometry"] == json.loads(POINT)
    assert item["properties"]["version"] == "3"
    rdf.check(rdf.graph(dcat.dataset([head], StaticHrefs()), "x"), public.SHAPES / "dcat.ttl")
    for name, content in (("data", POINT), ("capitals é.txt", POINT.upper())):
        linked(world.lake, item, name, content)

    (world.incoming / "oslo 1.geojson").unlink()
    await world.run(p)
    entries = [
        r["entry"] for r in await world.db.fetch("SELECT DISTINCT entry FROM headgate.journal")
    ]
    told = [f for entry in sorted(entries) for f in await facts.of_entry(world.db, entry)]
    outcomes = [f.outcome for f in told]
    assert outcomes == ["finalized", "finalized", "quarantined", "finalized", "finalized"]
    for one in told:
        check(one)
    (gone,) = await facts.heads(world.db, 1, 0, 10)
    assert gone.version is not None
    assert gone.version.removed
    assert run.files(gone) == run.files(told[-1])


def linked(lake: Path, item: dict, name: str, content: bytes) -> None:
    """A link of an item leads to its bytes, and they are what its checksum says."""
    asset = item["assets"][name]
    at = (lake / item_name(item["collection"], item["id"])).parent
    found = (at / unquote(urlsplit(asset["href"]).path)).resolve().read_bytes()
    assert found == content
    assert asset["file:checksum"] == f"1220{hashlib.sha256(found).hexdigest()}"
    assert asset["file:size"] == len(found)


async def test_a_wal_record_is_what_the_view_says(world: World) -> None:
    """The file and the view `wal` agree, column by column."""
    p = places(world)
    world.put("oslo.geojson", POINT)
    world.put("bad.geojson", b"{}")
    await world.run(p)
    for row in await world.db.fetch("SELECT * FROM headgate.wal ORDER BY entry"):
        (told,) = await facts.of_entry(world.db, row["entry"])
        record = json.loads(run.files(told)["wal.json"])
        same = ("wal_id", "idempotency_key", "status", "status_v0", "source_uri", "version_hint",
                "checksum_sha256", "pipeline", "entry")  # fmt: skip
        assert {n: record[n] for n in same} == {n: row[n] for n in same}
