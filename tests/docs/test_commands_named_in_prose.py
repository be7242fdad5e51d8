"""What the prose tells a reader to type exists."""

import re
import shlex
from pathlib import Path

import click
import pytest

from headgate.cli.root import headgate
from headgate.settings import DECLARED, variable

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
# Inside code only, so that "make sure" in a sentence is not a command.
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
MAKE = re.compile(r"(?:^|[`$]) *make ([^`\n]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_command_in_the_prose_exists(page: Path) -> None:
    """A newcomer types what the page says, and make knows the target."""
    code = "\n".join(CODE.findall(page.read_text()))
    words = [word for line in MAKE.findall(code) for word in shlex.split(line, comments=True)]
    said = {word for word in words if "=" not in word}
    assert said <= TARGETS, f"{page.name} names unknown targets: {sorted(said - TARGETS)}"


# Not after "import", and not a name inside SQL or a path that goes on.
HEADGATE = re.compile(r"(?<!import )(?<![\w./:-])(?:[\w./-]*/)?headgate +([a-z-][^`\n]*)")
PLACEHOLDER = re.compile(r"[^\w-].*")


def commands(page: Path) -> list[list[str]]:
    """What the code on a page calls `headgate` with, word by word."""
    code = "\n".join(
        part for part in CODE.findall(page.read_text()) if not part.startswith("```python")
    )
    return [line.split("#")[0].split() for line in HEADGATE.findall(code)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_headgate_command_in_the_prose_exists(page: Path) -> None:
    """A reader types what the page says, and headgate knows the command and its options."""
    for words in commands(page):
        command: click.Command = headgate
        ctx = click.Context(headgate, info_name="headgate")
        known = {option for param in headgate.get_params(ctx) for option in param.opts}
        rest = list(words)
        while rest and isinstance(command, click.Group) and re.match("[a-z]", rest[0]):
            found = command.get_command(ctx, PLACEHOLDER.sub("", rest[0]))
            assert found, f"{page.name} says: headgate {' '.join(words)}"
            command, rest = found, rest[1:]
            known |= {option for param in command.get_params(ctx) for option in param.opts}
        if command.ignore_unknown_options:
            continue  # what follows is for psql
        said = {PLACEHOLDER.sub("", word) for word in rest if re.match(r"--\w", word)}
        assert said <= known, f"{page.name} says: headgate {' '.join(words)}"


def test_commands_are_found_in_prose() -> None:
    """The test above looks at something: the daily loop of the README is among it."""
    assert {words[0] for words in commands(ROOT / "README.md")} >= {"try", "up", "status", "verify"}


PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_example_compiles(page: Path) -> None:
    """What a reader copies from a page is Python."""
    for number, block in enumerate(PYTHON.findall(page.read_text()), 1):
        compile(block, f"{page.name}, block {number}", "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_variable_in_the_prose_is_a_setting(page: Path) -> None:
    """A variable that a reader exports is one that Headgate reads."""
    said = set(re.findall(r"\bHEADGATE_[A-Z_]*[A-Z]\b", page.read_text()))
    unknown = said - {variable(name) for name in DECLARED}
    assert not unknown, f"{page.name} names {sorted(unknown)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_ours_in_the_prose_is_there(page: Path) -> None:
    """Who is sent to a file of the project finds it."""
    # In the seed map the second column names other people's files.
    text = re.sub(r"^\| S\d.*?\|.*?\|", "", page.read_text(), flags=re.MULTILINE)
    for path in re.findall(r"`((?:headgate|src|tests|docs)/[\w./-]+)`", text):
        folder = ROOT / "src" if path.startswith("headgate/") else ROOT
        assert (folder / path).exists(), f"{page.name} names {path}"
