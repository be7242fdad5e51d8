"""The page of Idempotency-Key says what the code does."""

import inspect
import re
from pathlib import Path

import headgate as hg
from headgate.library.asgi.kept import NOT_KEPT
from headgate.library.asgi.refusal import PROBLEMS

PAGE = (Path(__file__).parents[2] / "docs/reference/idempotency-key.md").read_text()


def test_every_parameter_is_on_the_page() -> None:
    """What can be said to the middleware is explained, in its order, with its default."""
    listed = re.findall(r"^`(\w+)`\n: ((?:.*\n)(?:  .*\n)*)", PAGE, re.MULTILINE)
    parameters = inspect.signature(hg.IdempotencyMiddleware).parameters
    assert [name for name, _ in listed] == list(parameters)
    for name, text in listed:
        default = parameters[name].default
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert re.search(rf"\b{default:g}\b|\b{default}\b", text), name


def test_every_problem_is_on_the_page() -> None:
    """A client that meets a reason finds what it means, and nothing else is listed."""
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert [(reason, int(status)) for reason, status in listed] == [
        (reason, kind.status) for reason, kind in PROBLEMS.items()
    ]


def test_every_header_that_is_not_stored_is_on_the_page() -> None:
    """Nobody has to find out by missing one."""
    (said,) = re.findall(r"one browser: (.*?)\.\n", PAGE, re.DOTALL)
    assert {name.lower().encode() for name in re.findall(r"`([\w-]+)`", said)} == NOT_KEPT
