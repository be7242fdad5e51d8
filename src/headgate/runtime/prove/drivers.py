"""Database drivers: a connection that the user's code opens is one to the scratch database.

Whatever address it names, written in the code or found somewhere, the scratch database answers, and
the log says where it would have gone. Statements are told with their lines. On the server such a
connection is called `prove:FILE:LINE`, so that what it changes can be put to a line. Headgate's own
connections are left alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast
from urllib.parse import urlsplit

from .imports import when_imported
from .scene import Line, Log, doer, is_aside, whose

STATEMENT_CHARACTERS = 300
NAME = "prove"
# What else than an address a driver takes.
_PSYCOPG_OWN = ("autocommit", "prepare_threshold", "context", "row_factory", "cursor_factory")
_PSYCOPG2_OWN = ("connection_factory", "cursor_factory", "async", "async_")
_ASYNCPG_ADDRESS = {
    "dsn", "host", "port", "user", "password", "passfile", "service", "servicefile", "database",
    "ssl", "direct_tls", "target_session_attrs", "krbsrvname", "gsslib",
}  # fmt: skip


def watch(log: Log, dsn: str) -> None:
    """Lead every connection of the user's code to `dsn` from now on."""
    drivers = _Drivers(log, dsn)
    when_imported("asyncpg", drivers.lead_asyncpg)
    when_imported("psycopg", drivers.lead_psycopg)
    when_imported("psycopg2", drivers.lead_psycopg2)


class _Drivers:
    def __init__(self, log: Log, dsn: str) -> None:
        self._log = log
        self._dsn = dsn

    def _opened(self, driver: str, to: str) -> str:
        """Tell of a connection; the name it has on the server."""
        line = self._log.tell("database", driver=driver, to=to, refused=False)
        return _named(line)

    def _watching(self, driver: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """A method that sends a statement, and tells it."""

        @functools.wraps(real)
        def send(link: Any, statement: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_aside() and doer() is not None:
                said = str(statement)[:STATEMENT_CHARACTERS]
                self._log.tell("database", driver=driver, statement=said, refused=False)
            return real(link, statement, *args, **kwargs)

        return send

    def _watch_statements(self, driver: str, of: Any, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(of, name, self._watching(driver, getattr(of, name)))

    def lead_asyncpg(self, module: ModuleType) -> None:
        asyncpg = cast("Any", module)
        real = asyncpg.connect_utils._connect

        async def connect(**given: Any) -> Any:
            if whose() == "headgate" or (doer() is None and given.get("dsn") == self._dsn):
                return await real(**given)
            settings = dict(given.get("server_settings") or {})
            settings["application_name"] = self._opened("asyncpg", _asyncpg_address(given))
            nowhere = dict.fromkeys(_ASYNCPG_ADDRESS & given.keys())
            instead = {"dsn": self._dsn, "server_settings": settings}
            return await real(**{**given, **nowhere, **instead})

        asyncpg.connect_utils._connect = connect
        sending = ("execute", "executemany", "fetch", "fetchrow", "fetchval", "prepare")
        copying = ("copy_records_to_table", "copy_to_table")
        self._watch_statements("asyncpg", asyncpg.connection.Connection, (*sending, *copying))

    def lead_psycopg(self, module: ModuleType) -> None:
        psycopg = cast("Any", module)
        for of in (psycopg.Connection, psycopg.AsyncConnection):
            of.connect = classmethod(self._psycopg_connect(psycopg, of.connect.__func__))
        psycopg.connect = psycopg.Connection.connect
        for of in (psycopg.Cursor, psycopg.AsyncCursor):
            self._watch_statements("psycopg", of, ("execute", "executemany", "copy"))

    def _psycopg_connect(self, psycopg: Any, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def connect(cls: Any, conninfo: str = "", **given: Any) -> Any:
            address = psycopg.conninfo.conninfo_to_dict(conninfo) | given
            name = self._opened("psycopg", _text(address))
            to = psycopg.conninfo.make_conninfo(self._dsn, application_name=name)
            return real(cls, to, **{n: v for n, v in given.items() if n in _PSYCOPG_OWN})

        return connect

    def lead_psycopg2(self, module: ModuleType) -> None:
        psycopg2 = cast("Any", module)
        real = psycopg2.connect

        @functools.wraps(real)
        def connect(dsn: Any = None, *args: Any, **given: Any) -> Any:
            address: dict[str, Any] = psycopg2.extensions.parse_dsn(dsn or "") | given
            name = self._opened("psycopg2", _text(address))
            to = psycopg2.extensions.make_dsn(self._dsn, application_name=name)
            return real(to, *args, **{n: v for n, v in given.items() if n in _PSYCOPG2_OWN})

        psycopg2.connect = connect


def _named(line: Line | None) -> str:
    return NAME if line is None else f"{NAME}:{line.file}:{line.line}"[:63]


def _asyncpg_address(given: dict[str, Any]) -> str:
    if not given.get("dsn"):
        return _text({**given, "dbname": given.get("database")})
    parts = urlsplit(str(given["dsn"]))
    return _text({"host": parts.hostname, "port": parts.port, "dbname": parts.path.lstrip("/")})


def _text(address: dict[str, Any]) -> str:
    """Where it would have gone, without the password."""
    host = address.get("host") or address.get("hostaddr") or "the default host"
    port, name = address.get("port"), address.get("dbname") or address.get("database")
    return f"{host}{f':{port}' if port else ''}{f'/{name}' if name else ''}"
