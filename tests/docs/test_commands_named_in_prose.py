"""What the prose tells a reader to type exists."""

import re
import shlex
from pathlib import Path

import pytest

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
