"""Reading: who says what about a setting, and who wins.

The first that says something wins: an option of the command, the environment, the nearest
`headgate.toml` upward from here, the nearest `pyproject.toml` with `[tool.headgate]`, the default.
For the database alone libpq's own variables come just before the default. Empty counts as unset,
wherever it is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from headgate.errors import ConfigError

from .table import DECLARED, EMBEDDED, Settings, plain, shown, variable

# With one of these in the environment a Postgres client knows where to connect; a user or a
# password alone names no server. In a DSN they are the parameters beside them.
LIBPQ = {"PGSERVICE": "service", "PGHOST": "host", "PGPORT": "port", "PGDATABASE": "dbname"}
# How alike a misspelt name is. Looser, and `HEADGATE_TEST_DATABASE_URL` could not be someone's own.
ALIKE = 0.85


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody said it. `folder` is what a relative path in it is relative to."""

    value: object
    origin: str
    folder: Path


def load(overrides: Mapping[str, object], environ: Mapping[str, str], here: Path) -> Settings:
    """All that has a say, as one checked `Settings`. Raises `ConfigError`."""
    files = list(_files(here))
    given = {
        **_from_libpq(environ, here),
        **_from_files(files),
        **_from_environment(environ, here),
        **_from_options(overrides, here),
    }
    values: dict[str, Any] = {name: _read(name, one) for name, one in given.items()}
    if values.get("database_url") == EMBEDDED:
        values["database_url"] = ""
    project = files[-1][0].parent if files else here
    folder = given["home"].folder if "home" in given else project
    values["home"] = Path(os.path.normpath(folder / values.get("home", Settings.home)))
    settings = Settings(**values, origins={name: one.origin for name, one in given.items()})
    settings = _with_derived_defaults(settings)
    _check(settings)
    return settings


def _from_options(overrides: Mapping[str, object], here: Path) -> dict[str, Given]:
    _refuse_unknown(overrides, "option")
    return {
        name: Given(value, "option", here)
        for name, value in overrides.items()
        if value is not None and value != ""
    }


def _from_environment(environ: Mapping[str, str], here: Path) -> dict[str, Given]:
    """Other HEADGATE_ names are left alone unless they look misspelt."""
    for name in environ:
        if name.startswith("HEADGATE_") and environ[name]:
            key = name.removeprefix("HEADGATE_").lower()
            if key not in DECLARED and (meant := _meant(key)):
                raise ConfigError(
                    f"The environment has {name}, which is no setting.",
                    hint=f"Did you mean {variable(meant)}? Rename it, or unset it.",
                )
    return {
        name: Given(environ[variable(name)], f"environment {variable(name)}", here)
        for name in DECLARED
        if environ.get(variable(name))
    }


def _from_files(files: Iterable[tuple[Path, dict[str, object]]]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for path, table in files:
        _refuse_unknown(table, str(path))
        given |= {
            name: Given(value, str(path), path.parent)
            for name, value in table.items()
            if value != ""
        }
    return given


def _from_libpq(environ: Mapping[str, str], here: Path) -> dict[str, Given]:
    """The server that libpq's variables name, as a DSN. The others are the driver's to read."""
    said = {name: environ[name] for name in LIBPQ if environ.get(name)}
    if not said:
        return {}
    from urllib.parse import quote

    query = "&".join(f"{LIBPQ[name]}={quote(value, safe='')}" for name, value in said.items())
    named = next(iter(said))
    # No slash before the question mark: after one, drivers take the database's name to be empty.
    return {"database_url": Given(f"postgresql://?{query}", f"environment {named}", here)}


def _files(here: Path) -> Iterator[tuple[Path, dict[str, object]]]:
    """The files that apply here, the one with more weight last."""
    for name, inside in (("pyproject.toml", ("tool", "headgate")), ("headgate.toml", ())):
        for folder in (here, *here.parents):
            if (table := _table(folder / name, inside)) is not None:
                yield folder / name, table
                break


def _table(path: Path, inside: tuple[str, ...]) -> dict[str, object] | None:
    try:
        content = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    # A pyproject.toml that does not speak of us is not ours to parse, or to complain about.
    if not all(word in content for word in inside):
        return None
    import tomllib

    try:
        table: object = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    for word in inside:
        table = cast("dict[str, object]", table).get(word) if isinstance(table, dict) else None
    return cast("dict[str, object]", table) if isinstance(table, dict) else None


def _refuse_unknown(said: Iterable[str], origin: str) -> None:
    for name in said:
        if name not in DECLARED:
            meant = _meant(name, 0.5)
            raise ConfigError(
                f"{name} is no setting ({origin}).",
                hint=f"Did you mean {meant}?"
                if meant
                else "Remove it; see docs/reference/settings.md.",
            )


def _meant(name: str, alike: float = ALIKE) -> str | None:
    """The setting that was probably meant: spelt like it, or cut short (`lease`)."""
    if short := [real for real in DECLARED if real.startswith(f"{name}_")]:
        return short[0]
    from difflib import get_close_matches

    return next(iter(get_close_matches(name.lower(), DECLARED, 1, alike)), None)


def _read(name: str, one: Given) -> object:
    kind = DECLARED[name].kind
    try:
        return kind.read(one.value)
    except (ValueError, OverflowError):
        said = repr(shown(name, one.value))
        said = said if len(said) < 100 else f"{said[:100]}…"
    # Outside the handler: the cause would repeat the value, and it may be a secret.
    raise ConfigError(
        f"{name} cannot be {said} ({one.origin}). Allowed: {kind.allowed}.",
        hint=f"Correct it there, or leave it out for the default, {DECLARED[name].default}.",
    )


def _with_derived_defaults(settings: Settings) -> Settings:
    values = vars(settings)
    return replace(
        settings,
        **{
            name: about.derive(values)
            for name, about in DECLARED.items()
            if about.derive is not None and name not in settings.origins
        },
    )


def _check(settings: Settings) -> None:
    """The rules between settings."""
    s = settings
    if not s.heartbeat_seconds < s.lease_seconds / 3:
        raise _contradiction(
            s, "heartbeat_seconds", "less than a third of", "lease_seconds",
            "A lease has to survive two lost beats.",
        )  # fmt: skip
    if not s.grace_seconds > s.deadline_seconds:
        raise _contradiction(
            s, "grace_seconds", "more than", "deadline_seconds",
            "Else an object would be collected while a handler is still about to use it.",
        )  # fmt: skip
    if s.retention_days < s.backfill_days:
        raise _contradiction(
            s, "retention_days", "at least", "backfill_days",
            "A source may be read again that far back, and its history has to be here then.",
        )  # fmt: skip


def _contradiction(
    settings: Settings, name: str, relation: str, other: str, because: str
) -> ConfigError:
    def said(one: str) -> str:
        return f"{one} {plain(getattr(settings, one))} ({settings.origin(one)})"

    return ConfigError(
        f"{said(name)} must be {relation} {said(other)}. {because}",
        hint=f"Change {name} or {other}.",
    )
