"""SQL lives in `.sql` files, beside the `.py` that calls it.

A file holds blocks. `-- name: claim` opens a query, read as `Q.claim`; `-- function: claim` opens
a CREATE OR REPLACE FUNCTION statement, which `migrate` installs. The two kinds have names of
their own, so a query may be called like the function it calls. Comments before the first block
belong to the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_HEADER = re.compile(r"--\s*(name|function):\s*(\S+)\s*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Queries:
    """The named blocks of one `.sql` file: `Q.claim` or `Q["claim"]` is the query's text."""

    __slots__ = ("_queries", "functions", "path")

    path: Path
    functions: Mapping[str, str]

    def __init__(self, path: Path, queries: dict[str, str], functions: dict[str, str]) -> None:
        self.path = path
        self._queries = queries
        self.functions = MappingProxyType(functions)

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):  # copy and pickle ask for these before __init__ ran
            raise AttributeError(name)
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"{self.path.name} has no query called {name!r}") from None

    def __getitem__(self, name: str) -> str:
        try:
            return self._queries[name]
        except KeyError:
            raise KeyError(f"{self.path.name} has no query called {name!r}") from None

    def __dir__(self) -> list[str]:
        return ["functions", "path", *self._queries]


def load(path_of_py: str) -> Queries:
    """The queries of the `.sql` file beside a module: `Q = load(__file__)`."""
    return read(Path(path_of_py).with_suffix(".sql"))


def read(path: Path) -> Queries:
    """The blocks of a `.sql` file. A name that is used twice is an error here, not at the call."""
    blocks: dict[str, dict[str, list[str]]] = {"name": {}, "function": {}}
    block: list[str] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            kind, name = header.groups()
            place = f"{path.name}, line {number}"
            if not _NAME.fullmatch(name) or (kind == "name" and name in ("path", "functions")):
                raise ValueError(f"{place}: {name!r} cannot be the name of a block")
            if name in blocks[kind]:
                raise ValueError(f"{place}: a second {kind} block called {name!r}")
            block = blocks[kind][name] = []
        elif block is not None:
            block.append(line)
        elif line.strip() and not line.startswith("--"):
            raise ValueError(f"{path.name}, line {number}: SQL before the first `-- name:`")
    return Queries(path, _texts(blocks["name"], path), _texts(blocks["function"], path))


def _texts(blocks: dict[str, list[str]], path: Path) -> dict[str, str]:
    texts = {name: "\n".join(lines).strip() for name, lines in blocks.items()}
    for name, text in texts.items():
        if all(not line.strip() or line.startswith("--") for line in text.splitlines()):
            raise ValueError(f"{path.name}: the block {name!r} holds no SQL")
    return texts
