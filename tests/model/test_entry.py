"""The machine: every status has its place, and every step a place to die."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate
from headgate.model import crash
from headgate.model.entry import DONE, NEXT, RESTING, Point, Status, is_path

SOURCE = Path(headgate.__file__).parent
S = Status

THE_PATH = [S.RECEIVED, S.CLAIMED, S.FETCHED, S.VALIDATED, S.STAGED, S.PROMOTED, S.FINALIZED]

# Where a process can die right after an entry got there. `skipped`, `fenced` and the ways back are
# written by the transaction that also writes failures.
DIES = {
    S.RECEIVED: {Point.AFTER_RECEIVE, Point.AFTER_RELEASE, Point.AFTER_BURY, Point.AFTER_FAIL},
    S.CLAIMED: {Point.AFTER_CLAIM},
    S.FETCHED: {Point.FETCHED},
    S.VALIDATED: {Point.VALIDATED},
    S.STAGED: {Point.STAGED},
    S.PROMOTED: {Point.PROMOTED},
    S.FINALIZED: {Point.AFTER_FINALIZE},
    S.FAILED: {Point.BEFORE_FAIL},
    S.WAITING: {Point.AFTER_FAIL, Point.AFTER_BURY},
    S.QUARANTINED: {Point.AFTER_FAIL, Point.AFTER_BURY},
    S.ROLLED_BACK: {Point.AFTER_FAIL, Point.AFTER_RELEASE},
    S.SKIPPED: {Point.AFTER_FAIL},
    S.FENCED: {Point.AFTER_FAIL},
}

# Transactions of which a side needs no crash point of its own, and why.
WITHOUT = {
    "ledger/inbox.py:register": "no entry is touched, and registering again changes nothing",
    "ledger/projection.py:lay_out": "no entry is touched; a move that was lost is made once more",
    "ledger/rows.py:prepare": "the user's table, before any work; doing it again changes nothing",
    "ledger/garbage.py:look": "only reads, under settings of its own",
    "ledger/garbage.py:delete": "COLLECTED is between the bytes and the row; both may be repeated",
    "ledger/audit_objects.py:_page": "only reads, under settings of its own",
    "ledger/reconcile.py:lines": "only reads, and a temporary table of its own",
    "ledger/request.py:preview": "no entry is touched; a preview that was lost is asked for again",
    "ledger/token.py:sign_in": "no entry is touched; a session that nobody got ends by itself",
    "runtime/rehearse.py:transaction": "hands on the transaction of whoever rehearses",
}


def test_the_machine_knows_every_status():
    """Nothing can be in a status that has no way on and no reason to stay."""
    assert NEXT.keys() == set(Status)
    assert all(after in NEXT for ways in NEXT.values() for after in ways)
    assert len({s.value for s in Status}) == len(Status)
    assert all(s.value == s.name.lower() for s in Status)


def test_an_entry_rests_or_is_on_its_way_and_what_is_done_stays_done():
    """Only an operator reopens anything, and never what was finalized or skipped."""
    assert DONE <= RESTING
    assert {s for s in Status if not NEXT[s]} - {S.FENCED} <= DONE
    assert all(S.CLAIMED not in NEXT[s] for s in DONE)
    assert {s for s in Status if S.CLAIMED in NEXT[s]} == {S.RECEIVED, S.WAITING}
    # A status in which nothing rests is always left by the transaction that wrote it.
    for moving in set(Status) - RESTING - {S.FENCED}:
        assert NEXT[moving]
        assert moving not in DONE


def test_every_entry_can_reach_an_end():
    """From everywhere there is a way to finalized, and to quarantine unless it was promoted."""
    for goal, beyond in ((S.FINALIZED, S.FENCED), (S.QUARANTINED, S.PROMOTED)):
        reached = {goal}
        while more := {s for s in Status if NEXT[s] & reached} - reached:
            reached |= more
        assert reached >= set(Status) - DONE - {S.FENCED, beyond}


@pytest.mark.parametrize(
    "steps",
    [
        THE_PATH,
        [S.CLAIMED, S.SKIPPED],
        [S.CLAIMED, S.FETCHED, S.SKIPPED],
        [S.CLAIMED, S.FETCHED, S.FAILED, S.ROLLED_BACK, S.QUARANTINED],
        [S.CLAIMED, S.FETCHED, S.VALIDATED, S.FAILED, S.WAITING, S.CLAIMED],
        [S.CLAIMED, S.RECEIVED, S.CLAIMED],
        [S.QUARANTINED, S.RECEIVED, S.CLAIMED],
        [S.QUARANTINED, S.ROLLED_BACK, S.QUARANTINED],
        [S.SKIPPED, S.RECEIVED, S.CLAIMED],
        [S.CLAIMED, S.FETCHED, S.VALIDATED, S.STAGED, S.FENCED],
        [S.FINALIZED],
        [],
    ],
)
def test_these_lives_are_lived(steps: list[Status]):
    """The path, each way off it, and each way back."""
    assert is_path(steps)


@pytest.mark.parametrize(
    "steps",
    [
        [S.FINALIZED, S.CLAIMED],
        [S.FINALIZED, S.RECEIVED],
        [S.SKIPPED, S.CLAIMED],
        [S.ROLLED_BACK, S.RECEIVED],
        [S.RECEIVED, S.FINALIZED],
        [S.CLAIMED, S.VALIDATED],
        [S.VALIDATED, S.PROMOTED],
        [S.PROMOTED, S.WAITING],
        [S.PROMOTED, S.FENCED],
        [S.FAILED, S.QUARANTINED],
        [S.QUARANTINED, S.CLAIMED],
        [S.WAITING, S.FETCHED],
        [S.CLAIMED, S.CLAIMED],
        [S.FENCED, S.CLAIMED],
    ],
)
def test_these_lives_are_not(steps: list[Status]):
    """No step is skipped, nothing done is reopened, and no two hold one entry."""
    assert not is_path(steps)


@given(st.lists(st.sampled_from(Status), max_size=6))
def test_a_path_is_one_legal_step_after_the_other(steps: list[Status]):
    """`is_path` says of a journal what the machine says of each pair in it."""
    assert is_path(steps) == all(b in NEXT[a] for a, b in pairwise(steps))


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of the path, the ledger and the loops, by file and name."""
    files = [SOURCE / "pipeline.py", *SOURCE.glob("ledger/*.py"), *SOURCE.glob("runtime/*.py")]
    for path in sorted(files):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{path.relative_to(SOURCE)}:{node.name}", node


def _calls(node: ast.AST, *names: str) -> Iterator[ast.Call]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            called = call.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name in names:
                yield call


def _members(node: ast.AST, enum: str) -> set[str]:
    return {
        a.attr
        for a in ast.walk(node)
        if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name) and a.value.id == enum
    }


def _reached() -> dict[Point, set[str]]:
    """Which crash points the code passes, and in which functions."""
    places: dict[Point, set[str]] = {point: set() for point in Point}
    for where, function in _functions():
        for call in _calls(function, "reached", "reach"):
            for name in _members(call, "Point"):
                places[Point[name]].add(where)
    return places


def test_every_crash_point_is_passed_by_the_code():
    """A point that nothing passes would be a test that kills nobody."""
    assert [point for point, places in _reached().items() if not places] == []


def test_every_step_has_a_place_to_die():
    """Whoever adds a status says where a process can die right after it."""
    assert DIES.keys() == set(Status)
    assert all(DIES.values())
    passed = {point for point, places in _reached().items() if places}
    assert set().union(*DIES.values()) <= passed


def test_a_step_is_never_reached_without_its_crash_point():
    """A step is written by `reach`, which names the step and the point of the same name."""
    steps: set[Status] = set()
    for where, function in _functions():
        for call in _calls(function, "reach"):
            first = call.args[0]
            if isinstance(first, ast.Constant):
                named = S(first.value)
            else:
                named = S[_members(first, "Status").pop()]
            assert _members(call.args[1], "Point") == {named.name}, where
            steps.add(named)
        if function.name == "reach":
            assert list(_calls(function, "reached")), "reach passes its point on"
            continue
        for call in _calls(function, "append", "extend"):
            on = call.func
            assert not (
                isinstance(on, ast.Attribute)
                and isinstance(on.value, ast.Attribute)
                and on.value.attr == "steps"
            ), f"{where} writes a step without a crash point: use reach()"
    assert steps == {S.FETCHED, S.VALIDATED, S.STAGED}


def _transactions() -> Iterator[tuple[str, ast.AST, ast.AsyncWith]]:
    for where, function in _functions():
        for node in ast.walk(function):
            if isinstance(node, ast.AsyncWith) and any(
                list(_calls(item.context_expr, "transaction")) for item in node.items
            ):
                yield where, function, node


def _only_reads(where: str, block: ast.AsyncWith) -> bool:
    """Does it begin with the query `snapshot`, which forbids writing?"""
    if _members(block.body[0], "Q") != {"snapshot"}:
        return False
    queries = (SOURCE / where.partition(":")[0]).with_suffix(".sql").read_text()
    snapshot = queries.partition("-- name: snapshot")[2].partition("-- name:")[0]
    assert "READ ONLY" in snapshot, where
    return True


def test_both_sides_of_every_commit_have_a_crash_point():
    """`kill -9` just before COMMIT and just after it: somebody thought of it, each time."""
    seen: set[str] = set()
    for where, function, block in _transactions():
        if where in WITHOUT or _only_reads(where, block):
            seen.add(where)
            continue
        points = {"before": set[str](), "after": set[str]()}
        for call in _calls(function, "reached"):
            inside = block.lineno <= call.lineno <= (block.end_lineno or 0)
            after = call.lineno > (block.end_lineno or 0)
            if inside or after:
                points["before" if inside else "after"] |= _members(call, "Point")
        assert any(p.startswith("BEFORE_") for p in points["before"]), f"{where}: before COMMIT"
        assert any(p.startswith("AFTER_") for p in points["after"]), f"{where}: after COMMIT"
        pairs = [{p.partition("_")[2] for p in side} for side in points.values()]
        assert pairs[0] <= pairs[1], f"{where}: the two sides have the same name"
    assert set(WITHOUT) <= seen, "an exception that is none any more"


def test_a_point_comes_with_its_other_side():
    """before:x and after:x, always both."""
    sides = [p.value.partition(":") for p in Point if ":" in p.value]
    before = {name for side, _, name in sides if side == "before"}
    assert before == {name for side, _, name in sides if side == "after"}
    assert len(sides) == 2 * len(before)


def test_an_armed_point_goes_off_each_time_and_no_other_does():
    """Until it is disarmed."""
    deaths: list[str] = []
    crash.arm(Point.STAGED, lambda: deaths.append("staged"))
    try:
        for point in Point:
            crash.reached(point)
        crash.reached(Point.STAGED)
    finally:
        crash.disarm()
    crash.reached(Point.STAGED)
    assert deaths == ["staged", "staged"]
