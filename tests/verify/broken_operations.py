"""Operations that somebody broke by hand, each with what verify must say about it."""

from __future__ import annotations

from hashlib import sha256

from tests.verify.broken import Broken
from tests.verify.damage import object_file
from tests.verify.operations import LARGE
from tests.verify.world import World


def _of(name: str) -> str:
    return f"(SELECT id FROM headgate.operation WHERE task = '{name}')"


async def _forge_a_line(world: World) -> None:
    """Reword a line and make its hash fit: the line after it knows better."""
    await world.db.execute(
        "UPDATE headgate.operation_journal SET reason = 'other', hash = sha256("
        " convert_to(concat_ws(E'\\n', operation, n, extract(epoch FROM at), fence, event, holder,"
        f" 'other', doc), 'UTF8')) WHERE n = 1 AND operation = {_of('loaded')}"
    )


_DIGEST = sha256(LARGE).digest()
_GONE = f"DELETE FROM headgate.object WHERE digest = '\\x{_DIGEST.hex()}'"


async def _delete_a_result(world: World) -> None:
    object_file(world, _DIGEST).unlink()


async def _flip_a_byte(world: World) -> None:
    path = object_file(world, _DIGEST)
    path.chmod(0o600)
    path.write_bytes(LARGE.upper())


BROKEN_OPERATIONS = [
    Broken(
        "a line of an operation was reworded",
        {"operation_line_altered"},
        sql="UPDATE headgate.operation_journal SET doc = '{{}}' WHERE event = 'failed'",
    ),
    Broken(
        "a line of an operation was reworded and its hash made to fit",
        {"operation_line_altered"},
        by=_forge_a_line,
    ),
    Broken(
        "a line of an operation is missing in the middle",
        {"operation_line_missing"},
        sql=f"DELETE FROM headgate.operation_journal WHERE n = 2 AND operation = {_of('loaded')}",
    ),
    Broken(
        "the last line of an operation is missing",
        {"operation_line_missing"},
        sql=f"DELETE FROM headgate.operation_journal WHERE n = 3 AND operation = {_of('loaded')}",
    ),
    Broken(
        "all lines of an operation are missing",
        {"operation_line_missing"},
        sql=f"DELETE FROM headgate.operation_journal WHERE operation = {_of('loaded')}",
    ),
    Broken(
        "an operation that is done was opened again",
        {"operation_status_mismatch"},
        sql="UPDATE headgate.operation SET status = 'failure', result_hash = NULL"
        " WHERE task = 'loaded'",
    ),
    Broken(
        "an operation that was reset is done all the same",
        {"operation_status_mismatch", "operation_result_mismatch"},
        sql="UPDATE headgate.operation SET status = 'success', result_hash = 'x'"
        " WHERE task = 'again'",
    ),
    Broken(
        "the fence of an operation fell",
        {"operation_status_mismatch"},
        sql="UPDATE headgate.operation SET fence = 1 WHERE task = 'loaded'",
    ),
    Broken(
        "an operation ran again after it was done",
        {"operation_done_twice"},
        sql="UPDATE headgate.operation SET fence = 2, lines = 3 WHERE task = 'charged';"
        f"SELECT headgate.operation_line({_of('charged')}, 3, 2, 'done', 'me', NULL, '{{{{}}}}')",
    ),
    Broken(
        "the result of an operation was changed",
        {"operation_result_mismatch"},
        sql="UPDATE headgate.operation SET result = '\"no\"' WHERE task = 'loaded'",
    ),
    Broken(
        "the result of an operation is gone",
        {"operation_result_mismatch"},
        sql="UPDATE headgate.operation SET result = NULL WHERE task = 'loaded'",
    ),
    Broken(
        "a call of an operation has another key",
        {"operation_call_mismatch"},
        sql=f"UPDATE headgate.operation_call SET key = 'x' WHERE operation = {_of('charged')}",
    ),
    Broken(
        "a call of an operation that is not there",
        {"dangling_operation_call"},
        sql="UPDATE headgate.operation_call SET operation = 999"
        f" WHERE operation = {_of('charged')}",
    ),
    Broken(
        "an operation was deleted",
        {"dangling_operation_line"},
        sql="DELETE FROM headgate.operation WHERE task = 'loaded'",
    ),
    Broken(
        "a dataset is locked for an operation that is done",
        {"operation_lock_left"},
        sql=f"UPDATE headgate.operation_lock SET operation = {_of('loaded')}",
    ),
    Broken(
        "a dataset is locked for an attempt that was replaced",
        {"operation_lock_left"},
        sql="UPDATE headgate.operation SET token = substring(sha256('') FOR 16)"
        " WHERE task = 'held'",
    ),
    Broken(
        "a dataset is locked for an operation that is not there",
        {"operation_lock_left"},
        sql="UPDATE headgate.operation_lock SET operation = 999",
    ),
    Broken(
        "a caller left after it had called somebody outside",
        {"operation_stuck"},
        sql="UPDATE headgate.operation SET lease_until = now() - interval '1h'"
        " WHERE status = 'running'",
    ),
    Broken("a stored result was deleted", {"object_missing"}, by=_delete_a_result),
    Broken("a stored result was changed", {"object_damaged"}, by=_flip_a_byte, deep=True),
    Broken("a stored result is unknown", {"object_unknown"}, sql=_GONE),
    Broken(
        "a stored result was collected",
        {"object_collected"},
        sql=f"WITH gone AS ({_GONE} RETURNING *) INSERT INTO headgate.collected"
        " SELECT store, digest, size, now(), interval '0' FROM gone",
    ),
    Broken(
        "a stored result is not kept",
        {"object_not_kept"},
        sql=f"UPDATE headgate.object SET state = 'staged' WHERE digest = '\\x{_DIGEST.hex()}'",
    ),
]
