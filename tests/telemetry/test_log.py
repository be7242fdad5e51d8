"""Log lines, and who decides about them."""

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.world import World, change

import headgate as hg
from headgate.model.mask import Masker
from headgate.model.trace import carried, read
from headgate.telemetry.log import bound, configure, get_logger


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Each test leaves the process's logging as it was."""
    root, ours = logging.getLogger(), logging.getLogger("headgate")
    before = root.handlers[:], root.level, ours.level
    yield
    logging.captureWarnings(False)
    root.handlers[:], root.level = before[0], before[1]
    ours.setLevel(before[2])


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_is_one_object_per_line() -> None:
    """A log shipper never sees half an event, also with tracebacks and odd characters."""
    configure("auto", "info", stream=(out := io.StringIO()))
    get_logger().info("two\nlines\u2028", size=2**80, odd="\ud800", when=None, level="mine")
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        get_logger().exception("broke")
        logging.getLogger("library").exception("theirs %s", "too")
    first, second, third = lines(out)
    assert first["event"] == "two\nlines\u2028"
    assert (first["level"], first["logger"], first["size"]) == ("info", "headgate", 2**80)
    assert "ValueError: first\nsecond" in str(second["exception"])
    assert (third["event"], third["logger"]) == ("theirs too", "library")
    assert "ValueError" in str(third["exception"])


def test_a_terminal_gets_words_and_a_pipe_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """People read people's lines without asking for them."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    configure("auto", stream=(terminal := Terminal()))
    get_logger().info("finalized", entries=3)
    assert "finalized" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")
    monkeypatch.setenv("NO_COLOR", "1")
    configure("human", stream=(plain := Terminal()))
    get_logger().info("finalized", entries=3)
    assert "finalized" in plain.getvalue()
    assert "entries=3" in plain.getvalue()
    assert "\x1b[" not in plain.getvalue()
    configure("json", stream=(asked := Terminal()))
    get_logger().info("finalized")
    assert lines(asked)[0]["event"] == "finalized"


def test_a_payload_cannot_write_to_the_terminal() -> None:
    """Escape sequences in a file name are shown, not obeyed."""
    configure("human", stream=(out := io.StringIO()))
    get_logger().info("read \x1b[2J", uri="a\x1b]0;title\x07")
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_every_line_of_an_attempt_says_which_attempt() -> None:
    """One search for a run, an entry or a key finds the whole story, across tasks and threads."""
    configure("json", stream=(out := io.StringIO()))

    async def handle(number: int) -> None:
        with bound(pipeline="rain", run=f"r{number}", entry=number, key=f"k{number}"):
            await asyncio.sleep(0)
            await asyncio.to_thread(get_logger().info, "handled", number=number)

    async def both() -> None:
        await asyncio.gather(handle(1), handle(2))

    asyncio.run(both())
    get_logger().info("after")
    *handled, after = lines(out)
    for line in handled:
        number = line["number"]
        assert (line["run"], line["entry"], line["key"]) == (f"r{number}", number, f"k{number}")
        assert line["pipeline"] == "rain"
    assert "run" not in after


@pytest.mark.parametrize("form", ["json", "human"])
def test_no_line_shows_a_secret(form: str) -> None:
    """Not in fields, messages or tracebacks, not from libraries and not bound to the context."""
    configure("json" if form == "json" else "human", stream=(out := io.StringIO()))
    url = "postgresql://me:hunter2@db/x"
    with bound(key=f"Bearer hunter2{'x' * 9}"):
        get_logger().warning(f"cannot reach {url}", password="hunter2", deep=[{"token": "hunter2"}])
        try:
            raise OSError(url)
        except OSError:
            get_logger().exception("failed")
            logging.getLogger("library").exception("retrying %s", url)
    assert "hunter2" not in out.getvalue()
    assert out.getvalue().count("***") >= 7


def test_a_pipelines_own_mask_is_applied_to_its_logger() -> None:
    """What the author calls sensitive is not logged either."""
    configure("json", stream=(out := io.StringIO()))
    masker = Masker(lambda text: text.replace("Alice", "<name>"))
    get_logger(masker=masker).info("row of Alice", who="Alice")
    assert "Alice" not in out.getvalue()


def test_the_level_is_ours_and_libraries_stay_calm() -> None:
    """`debug` shows Headgate's details, not those of every library."""
    configure("json", "debug", stream=(out := io.StringIO()))
    get_logger().debug("ours")
    logging.getLogger("library").debug("theirs")
    configure("json", "error", stream=out)
    get_logger().warning("hushed")
    logging.getLogger("library").warning("hushed")
    assert [line["event"] for line in lines(out)] == ["ours"]


def test_warnings_are_lines_too() -> None:
    """A library's warning does not break a stream of JSON."""
    configure("json", stream=(out := io.StringIO()))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old way", DeprecationWarning, stacklevel=1)
    (line,) = lines(out)
    assert "old way" in str(line["event"])


LIBRARY = """
import io, logging, pkgutil, importlib, warnings
before = (logging.root.handlers[:], logging.root.level, warnings.showwarning)
import headgate.telemetry
for module in pkgutil.iter_modules(headgate.telemetry.__path__):
    importlib.import_module(f"headgate.telemetry.{module.name}")
from headgate.telemetry.log import get_logger
log = get_logger()
log.info("quiet")
import structlog
assert not structlog.is_configured()
assert (logging.root.handlers[:], logging.root.level, warnings.showwarning) == before
assert logging.getLogger("headgate").level == logging.NOTSET
assert not logging.getLogger("headgate").handlers
out = io.StringIO()
logging.basicConfig(stream=out, level="INFO", format="%(name)s|%(message)s")
log.info("settled", entries=3, name="x", args=1)
assert out.getvalue() == "headgate|settled entries=3 name=x args=1\\n", out.getvalue()
"""


def test_as_a_library_it_leaves_logging_alone(tmp_path: Path) -> None:
    """Importing and logging changes no handler and no level, and prints nothing by itself."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY], env=environ, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_what_a_handler_logs_says_which_change_it_is_about(world: World) -> None:
    """By key, message, object, run and trace: in a thread, on the loop, async and in an apply."""
    configure("json", stream=(out := io.StringIO()))
    sender = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    plain, later = world.pipeline("plain"), world.pipeline("later")
    library = logging.getLogger("library")

    @plain.transform
    def handle(obj: hg.Object) -> None:
        library.info("handling")

    @plain.apply
    async def apply(tx: hg.Transaction, obj: hg.Object) -> None:
        library.info("applying")

    @later.transform
    async def handle_async(obj: hg.Object) -> None:
        await asyncio.sleep(0)
        get_logger("mine").info("handling")
        await asyncio.to_thread(library.info, "handling beside")

    told = [carried(change(f"o{n}", b"1", event=f"e{n}"), read(sender)) for n in range(40)]
    for p in (plain, later):
        await world.receive(p, *told)
        await world.run(p)
    library.info("afterwards")
    found = [line for line in lines(out) if "ing" in str(line["event"]) and "key" in line]
    said = {(line["pipeline"], line["event"]) for line in found}
    assert said == {
        ("plain", "handling"),
        ("plain", "applying"),
        ("later", "handling"),
        ("later", "handling beside"),
    }
    assert len(found) == 160
    rows = await world.rows("SELECT id, encode(key, 'hex'), uri FROM headgate.entry")
    known = {entry: (key, uri) for entry, key, uri in rows}
    for line in found:
        entry = line["entry"]
        assert (line["key"], line["uri"]) == known[entry]
        assert line["run"] == f"{entry}-1"
        assert line["uri"] == f"test://o{str(line['message_id'])[1:]}"
        assert line["trace_id"] == sender.split("-")[1]
    assert "key" not in lines(out)[-1], "nothing is being done any more"
