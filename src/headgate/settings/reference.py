"""The reference page, written from the table so that it cannot say anything else."""

from __future__ import annotations

from collections.abc import Iterator

from .table import DECLARED, Declared, variable

INTRODUCTION = """\
# Settings

Every setting is an environment variable and a key of `headgate.toml`, or of `[tool.headgate]` in
`pyproject.toml`:

```toml
# headgate.toml
database_url = "postgresql://headgate@db.example/ingest"
lease_seconds = 300
workers = 4
```

The first that says something wins:

1. an option of the command
2. the environment
3. the nearest `headgate.toml`, from the current folder upward
4. the nearest `pyproject.toml` with `[tool.headgate]`, from the current folder upward
5. the default

Empty counts as unset. A relative path in a file is relative to that file; in a variable or an
option, to the current folder; by default, to the folder of the file, if there is one. A key that is
no setting, a variable that looks like a misspelt one, and a value that is not allowed stop Headgate
before it does anything, with a message that says where it was said.

`headgate config show` lists the values that count here and where each came from, with passwords
masked.
"""

RULES = """\
## Rules between settings

- `heartbeat_seconds` is less than a third of `lease_seconds`: a lease survives two lost beats.
- `grace_seconds` is more than `deadline_seconds`: nothing is collected that a running handler is
  still about to use.
- `retention_days` is at least `backfill_days`: what is read again still has its history here.
"""

LIBPQ = """\
## The database by libpq's variables

Without `database_url`, `PGSERVICE`, `PGHOST`, `PGPORT` or `PGDATABASE` name the server, as they do
for every PostgreSQL client; `PGUSER`, `PGPASSWORD`, `PGPASSFILE` and `PGSSLMODE` then count too.
`database_url = "embedded"` insists on the embedded server.
"""

TESTING = """\
## For testing only
"""


def reference_markdown() -> str:
    """The whole page."""
    ordinary = {name: about for name, about in DECLARED.items() if not about.testing}
    testing = {name: about for name, about in DECLARED.items() if about.testing}
    parts = [
        INTRODUCTION,
        "## All settings\n\n" + "\n".join(_entries(ordinary)),
        RULES,
        LIBPQ,
        TESTING + "\n" + "\n".join(_entries(testing)),
    ]
    return "\n".join(parts)


def _entries(settings: dict[str, Declared]) -> Iterator[str]:
    """A definition list: a table would be too wide to read."""
    for name, about in settings.items():
        yield f"`{name}`"
        yield f": {about.help}"
        yield ""
        yield f"  `{variable(name)}` · default: {about.default} · allowed: {about.kind.allowed}"
        yield ""
