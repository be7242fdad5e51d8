"""Mail, requests and databases: seen with their lines, and kept away from what is real."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from .conftest import Watched


class _Mail(socketserver.StreamRequestHandler):
    """As much SMTP as it takes to accept a mail."""

    def handle(self) -> None:
        self.wfile.write(b"220 sink\r\n")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                while self.rfile.readline() != b".\r\n":
                    pass
                self.server.mails += 1  # pyright: ignore[reportAttributeAccessIssue]
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")


class _Web(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.socket.getsockname()[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_mail_and_requests_are_seen_one_by_one(watched: Watched) -> None:
    """Each mail and each request has a record with its line; beyond this machine nothing goes."""
    mail = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail)
    mail.mails = 0  # pyright: ignore[reportAttributeAccessIssue]
    web = HTTPServer(("127.0.0.1", 0), _Web)
    with _serving(mail) as mail_port, _serving(web) as web_port:
        seen = watched(
            f"""
            import asyncio, http.client, smtplib, socket, subprocess

            @p.rows("fact", key="name", schema=Fact)
            def facts(obj, run):
                with smtplib.SMTP("127.0.0.1", {mail_port}) as smtp:
                    smtp.sendmail("a@x", ["b@x"], "one")  # first
                    smtp.sendmail("a@x", ["b@x"], "two")  # second
                run.call("mail", lambda: send())
                link = http.client.HTTPConnection("127.0.0.1", {web_port})
                for method in ("GET", "POST"):
                    link.request(method, "/", body=b"x")  # request
                    link.getresponse().read()
                link.close()
                asyncio.run(by_task())
                for to in (("203.0.113.7", 80), ("127.0.0.1", 5432), ("db.example.org", 80)):
                    try:
                        socket.create_connection(to, 1)  # refused
                    except OSError as error:
                        yield {{"name": to[0], "value": str(error)}}
                try:
                    subprocess.run(["psql", "postgresql://db.example.org/production"])
                except OSError as error:
                    yield {{"name": "psql", "value": str(error)}}

            def send():
                with smtplib.SMTP("127.0.0.1", {mail_port}) as smtp:
                    smtp.sendmail("a@x", ["b@x"], "three")

            async def by_task():
                _, writer = await asyncio.open_connection("127.0.0.1", {web_port})  # task
                writer.close()

            @p.transform
            async def on_the_loop(obj):
                try:
                    await asyncio.open_connection("203.0.113.7", 81)  # on the loop
                except OSError as error:
                    return {{type(error).__name__: "refused"}}
            """
        )
        assert mail.mails == 3  # pyright: ignore[reportAttributeAccessIssue]
    told = [
        (r["detail"]["kind"], r["line"], r["in_call"])
        for r in seen.of("connect")
        if not r["detail"]["refused"]
    ]
    assert told == [
        ("smtp", seen.line("# first"), None),
        ("smtp", seen.line("# second"), None),
        ("smtp", seen.line('"three"'), "mail"),
        ("http GET", seen.line("# request"), None),
        ("http POST", seen.line("# request"), None),
        ("socket", seen.line("# task"), None),
    ]
    shut = [(r["detail"]["to"], r["line"]) for r in seen.of("connect") if r["detail"]["refused"]]
    places = ("203.0.113.7:80", "127.0.0.1:5432", "db.example.org:80")
    on_the_loop = ("203.0.113.7:81", seen.line("# on the loop"))
    assert shut == [*((to, seen.line("# refused")) for to in places), on_the_loop]
    assert [name for name, _ in seen.artifacts] == ["ConnectionShut"]
    for name in ("203.0.113.7", "db.example.org"):
        assert "--network allows it" in seen.facts[name]
    for name in ("127.0.0.1", "psql"):
        assert "not the scratch one" in seen.facts[name]


def test_a_connection_of_its_own_ends_in_the_scratch_database(watched: Watched) -> None:
    """Whatever address is in the code, no real database is asked, and each statement has its line.

    Both drivers are there in the tests; in a user's environment either may be missing.
    """
    seen = watched(
        """
        import asyncio, asyncpg, importlib.util
        assert importlib.util.find_spec("psycopg")  # asking is not importing
        import psycopg

        REAL = "postgresql://me:secret@db.example.org:6000/production"
        NAME = "SELECT current_setting('application_name')"

        async def by_asyncpg(uri):
            link = await asyncpg.connect(REAL)  # asyncpg opens
            await link.execute("INSERT INTO own VALUES ($1)", uri)  # asyncpg writes
            name = await link.fetchval(NAME)
            await link.close()
            async with asyncpg.create_pool(host="db.example.org", min_size=1) as pool:  # a pool
                return name, await pool.fetchval("SELECT count(*) FROM own")

        @p.rows("fact", key="name", schema=Fact)
        def facts(obj, run):
            with psycopg.connect(REAL, autocommit=True, connect_timeout=3) as link:  # psycopg opens
                link.execute("CREATE TABLE IF NOT EXISTS own (uri text)")
                link.execute("INSERT INTO own VALUES (%s)", [obj.uri])  # psycopg writes
                (name,) = link.execute(NAME).fetchone()
            yield {"name": "psycopg", "value": name}
            name, count = asyncio.run(by_asyncpg(obj.uri))
            yield {"name": "asyncpg", "value": name}
            yield {"name": "rows", "value": str(count)}

        @p.apply
        async def applied(tx, obj):
            await tx.execute("UPDATE own SET uri = uri")
        """
    )
    opened = [(r["detail"]["to"], r["line"]) for r in seen.of("database") if "to" in r["detail"]]
    assert opened == [
        ("db.example.org:6000/production", seen.line("# psycopg opens")),
        ("db.example.org:6000/production", seen.line("# asyncpg opens")),
        ("db.example.org", seen.line("# a pool")),
    ]
    assert seen.facts == {
        "psycopg": f"prove:p.py:{seen.line('# psycopg opens')}",
        "asyncpg": f"prove:p.py:{seen.line('# asyncpg opens')}",
        "rows": "2",
    }
    wrote = [
        (r["detail"]["driver"], r["line"])
        for r in seen.of("database")
        if r["detail"].get("statement", "").startswith("INSERT")
    ]
    assert wrote == [
        ("psycopg", seen.line("# psycopg writes")),
        ("asyncpg", seen.line("# asyncpg writes")),
    ]
    assert "secret" not in str([r["detail"] for r in seen.records])
    assert not any("UPDATE" in str(r["detail"]) for r in seen.records), "apply is Headgate's own"
