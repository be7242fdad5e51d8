"""What to call a fault, and what to write instead. The words a reader came for."""

from __future__ import annotations

from .finding import Cause, Finding

# To be read after its line: `rain.py:12  appends to audit.log each time it runs`.
_TITLES: dict[Cause, str] = {
    "file": "changes {thing} each time it runs",
    "process": "starts a program that changes {thing} each time",
    "mail": "sends an e-mail each time it runs",
    "request": "sends {thing} each time it runs",
    "socket": "talks to somebody else each time it runs",
    "database": "writes to table {thing} over a connection of its own",
    "call": "makes the call {thing} again",
    "clock": "makes {output} depend on the clock",
    "random": "makes {output} depend on chance",
    "hash": "makes {output} depend on the order of a set",
    "listing": "makes {output} depend on how a folder is listed",
    "earlier": "makes {output} depend on what was delivered earlier",
    "order": "makes {output} depend on the order of the deliveries",
    "attempt": "makes {output} depend on which attempt it is",
    "race": "makes {output} depend on who is quicker",
    "unstable": "makes {output} another one in every run",
    "raised": "fails when it runs again",
    "stuck": "does not come to an end",
}


def title(found: Finding) -> str:
    """The fault in one clause."""
    text = _TITLES[found.cause]
    if found.cause == "file" and "a" in found.mode:
        text = "appends to {thing} each time it runs"
    return text.format(thing=found.thing.removeprefix("http "), output=_output(found))


def _output(found: Finding) -> str:
    if found.said.startswith("table"):
        return f"table {found.thing}"
    if found.said.startswith(("artifact", f"{found.thing}:")):
        return found.thing
    return "the result"


def fix(found: Finding, pipeline: str) -> list[str]:
    """What to write instead: a sentence, then lines of code where code says it better."""
    match found.cause:
        case "file" | "process":
            return [
                "Give it back as an artifact, or as rows: Headgate publishes those once.",
                f"@{_name(pipeline)}.transform",
                "def lines(obj, run):",
                f'    return {{"{_base(found.thing)}": ...}}',
            ]
        case "mail":
            return [
                "Make it a call with a name. One that was made is not made again.",
                'run.call("mail", lambda key: send(message_id=f"<{key}@example.org>"))',
            ]
        case "request":
            return [
                "Make it a call with a name, and give the other side the key.",
                'run.call("post", lambda key: post(..., headers={"Idempotency-Key": key}))',
            ]
        case "socket":
            return [
                "If it changes anything over there, make it a call with a name.",
                'run.call("tell", lambda key: tell(..., key))',
            ]
        case "database":
            return [
                "Use the transaction that Headgate commits the entry with.",
                f"@{_name(pipeline)}.apply",
                "def save(tx, obj, run):",
                f'    tx.execute("INSERT INTO {found.thing} ...", ...)',
            ]
        case "call":
            return [
                "Give the call the same name in every attempt: the name is how it is remembered.",
                'run.call("notify", ...)',
            ]
        case _:
            return _steady(found)


def _steady(found: Finding) -> list[str]:
    """For an output that is not the same each time."""
    match found.cause:
        case "clock":
            return ["Take the time from the object, which has one: obj.event_time"]
        case "random":
            return [
                "Derive it from the object: the same bytes then get the same value.",
                "random.Random(obj.digest)    uuid.uuid5(uuid.NAMESPACE_URL, run.key)",
            ]
        case "hash":
            return ["Put it in order before you use it: sorted(...)"]
        case "listing":
            return ["Put the names in order: sorted(os.listdir(...)), sorted(path.iterdir())"]
        case "earlier":
            return [
                "Keep nothing in the module between two objects: another process has another "
                "module.",
                "Keep it in a table, and read it in @apply through tx.",
            ]
        case "order":
            return [
                "There is no order between two objects. Let their times decide, as in",
                "ON CONFLICT (id) DO UPDATE SET ... WHERE t.at < excluded.at    -- obj.event_time",
            ]
        case "attempt":
            return [
                "Leave run.attempt, run.id and what an earlier attempt left behind out of the "
                "result."
            ]
        case "race":
            return ["Let each object stand for itself; what they share belongs into a table."]
        case "unstable":
            return ["Make the result from the bytes of the object alone."]
        case "raised":
            return [
                "A handler may run again at any time, after all or a part of it has run.",
                "Make what it does bear that, or give it back as rows or as an artifact.",
            ]
        case _:
            return ["If it only needs longer, give it more time: --patience SECONDS"]


def _name(pipeline: str) -> str:
    return pipeline.replace("-", "_")


def _base(path: str) -> str:
    return path.rpartition("/")[2]
