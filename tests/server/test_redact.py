"""Redaction: what is restricted is not read by who may not, in whatever shape it comes."""

from __future__ import annotations

import pytest
from tests.world import World

import headgate as hg
from headgate.model.role import ROLES, Principal, Role
from headgate.server.redact import RESTRICTED, eyes, redacted


def who(role: Role) -> Principal:
    return Principal("x", role, None, "token", "x", None)


@pytest.mark.parametrize("role", ROLES)
async def test_only_stewards_read_what_is_not_public(world: World, role: Role) -> None:
    """What a pipeline declared last counts; one without a dataset declares nothing."""
    for access in ("public", "restricted", "non-public"):
        dataset = hg.Dataset(access, access=access)
        await world.register(world.pipeline(access, dataset=dataset))
    await world.register(world.pipeline("plain"))
    seen = await eyes(world.db, who(role))
    hidden = {name for name in ("public", "restricted", "non-public", "plain") if seen.hides(name)}
    assert hidden == (set() if role in ("steward", "admin") else {"restricted", "non-public"})
    document = {"entry": 7, "uri": "s3://secret/place"}
    assert ("secret" in str(seen.shown("restricted", document))) == (not hidden)
    assert seen.shown("plain", document) == document
    assert seen.text("restricted", "secret") == (RESTRICTED if hidden else "secret")
    await world.register(
        world.pipeline("public", dataset=hg.Dataset("public", access="restricted"))
    )
    assert (await eyes(world.db, who(role))).hides("public") == bool(hidden)


def test_what_is_left_says_that_there_is_something_and_what_became_of_it() -> None:
    """Numbers, times and states stay; words of the data go, however deep they are."""
    document = {
        "entry": 7,
        "pipeline": "salt",
        "status": "quarantined",
        "reason": "schema",
        "uri": "secret",
        "key": "secret",
        "error": "secret",
        "preview": None,
        "attempts": [{"at": "2026-01-01", "error": "secret", "steps": ["fetched"]}],
        "publication": {
            "version": 3,
            "artifacts": [{"name": "secret"}],
            "metadata": {"a": "secret"},
        },
        "object_identity": {"sha256": "secret"},
    }
    left = redacted(document)
    assert "secret" not in str(left)
    assert (left["entry"], left["status"], left["reason"], left["preview"]) == (
        7, "quarantined", "schema", None,
    )  # fmt: skip
    assert left["attempts"] == [{"at": "2026-01-01", "error": RESTRICTED, "steps": ["fetched"]}]
    assert left["publication"]["version"] == 3
