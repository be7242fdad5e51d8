"""Deferred statements travel in an order and in numbers of their own; nobody can tell."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from tests.world import World

from headgate.ledger import deferred as deferring
from headgate.ledger.deferred import MANY_ROWS, Deferred, Deferring, Parcel, send
from headgate.ledger.plain import plain
from headgate.ledger.transaction import REFUSED
from headgate.pg import driver

TABLES = """
    CREATE TABLE plain (n serial, name text, size int);
    CREATE TABLE counter (name text PRIMARY KEY, n int NOT NULL CHECK (n < 1000));
    CREATE TABLE parent (name text PRIMARY KEY, n int DEFAULT 0);
    CREATE TABLE child (n serial PRIMARY KEY, parent text REFERENCES parent ON DELETE CASCADE);
    CREATE TABLE noted (n serial, name text);
    CREATE TABLE notes (n serial, said text);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO notes (said) SELECT TG_LEVEL || ' ' || count(*) FROM noted; RETURN NULL; END $$;
    CREATE TRIGGER each_row AFTER INSERT ON noted FOR EACH ROW EXECUTE FUNCTION note();
    CREATE TRIGGER each_time AFTER INSERT ON noted EXECUTE FUNCTION note();
    CREATE TABLE numbered (name text, n bigint);
    CREATE FUNCTION seen() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM numbered';
    ALTER TABLE numbered ALTER n SET DEFAULT seen();
    CREATE TABLE spare (name text, n int);
    CREATE TABLE ruled (name text);
    CREATE RULE twice AS ON INSERT TO ruled DO ALSO INSERT INTO plain (name) VALUES ('by rule');
    CREATE VIEW shown AS SELECT name, n FROM counter;
    CREATE SCHEMA "S";
    CREATE TABLE "S"."Kinds" (n serial, a bool, b bytea, c smallint, d int, e bigint, f float8,
        g timestamp, h date, i timestamptz, j numeric(9, 2), k json, l uuid, m jsonb, o text,
        p varchar(20), q int[], r char(3));
"""
ALL = (
    "plain",
    "counter",
    "parent",
    "child",
    "noted",
    "notes",
    "numbered",
    "spare",
    "ruled",
    '"S"."Kinds"',
)
KINDS = (
    'INSERT INTO "S"."Kinds" (a, b, c, d, e, f, g, h, i, j, k, l, m, o, p) VALUES'
    " ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
)
COUNT = (
    "INSERT INTO counter (name, n) VALUES ($1, 1)"
    " ON CONFLICT (name) DO UPDATE SET n = counter.n + excluded.n"
)
PLAIN = "INSERT INTO plain (name, size) VALUES ($1, $2)"
PARENT = "INSERT INTO parent (name) VALUES ($1) ON CONFLICT DO NOTHING"
CHILD = "INSERT INTO child (parent) VALUES ($1)"


def kinds(chance: random.Random) -> tuple[Any, ...]:
    """Arguments of every kind, each of them absent now and then."""
    when = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=chance.randrange(10**8))
    told: list[Any] = [
        chance.random() < 0.5,
        chance.randbytes(3),
        chance.randrange(-99, 99),
        chance.randrange(-(2**31), 2**31),
        chance.randrange(-(2**63), 2**63),
        chance.uniform(-1e9, 1e9),
        when.replace(tzinfo=None),
        date(2026, 1, chance.randrange(1, 32)),
        when,
        Decimal(chance.randrange(-999, 999)) / 7,
        '{"a": [1, "\\""]}',
        UUID(int=chance.getrandbits(128)),
        '{"b":  null}',
        chance.choice(["", "NULL", 'a"b', "\\", "{}", "ü🌧", "'", ",", " x "]),
        chance.choice(["", "varying", "NULL"]),
    ]
    return tuple(None if chance.random() < 0.1 else value for value in told)


def script(chance: random.Random) -> list[Deferred]:
    """What some entries' handlers defer, the statements of one after those of the other."""
    names = [f"n{n}" for n in range(chance.choice([1, 5, 400]))]
    ways: dict[str, Any] = {
        PLAIN: lambda: (chance.choice([*names, None]), chance.randrange(9)),
        COUNT: lambda: (chance.choice(names),),
        PARENT: lambda: (chance.choice(names),),
        "INSERT INTO noted (name) VALUES ($1)": lambda: (chance.choice(names),),
        "INSERT INTO numbered (name) VALUES ($1)": lambda: (chance.choice(names),),
        "INSERT INTO ruled (name) VALUES ($1)": lambda: (chance.choice(names),),
        "INSERT INTO shown (name, n) VALUES ($1, 2) ON CONFLICT DO NOTHING": lambda: ("v",),
        KINDS: lambda: kinds(chance),
        'INSERT INTO "S"."Kinds" (q, r) VALUES ($1, $2)': lambda: ([1, 2], "x"),
        "INSERT INTO plain (name) VALUES (lower($1) || 'X')": lambda: (chance.choice(names),),
        "UPDATE counter SET n = n + 1 WHERE name = $1": lambda: (chance.choice(names),),
        "UPDATE plain SET size = size + (SELECT count(*) FROM counter)": lambda: (),
        "UPDATE parent SET n = n + 1 WHERE name = $1": lambda: (chance.choice(names),),
        "DELETE FROM counter WHERE name = $1": lambda: (chance.choice(names),),
        "DELETE FROM parent WHERE name = $1": lambda: (chance.choice(names),),
        "INSERT INTO spare (n, name) VALUES (2, $1)": lambda: (chance.choice(names),),
        "DELETE FROM numbered WHERE name = $1": lambda: (chance.choice(names),),
        "INSERT INTO plain (name) SELECT min(name) FROM counter": lambda: (),
    }
    said = chance.sample(list(ways), chance.choice([1, 1, 2, 2, 3]))
    if PARENT in said:
        said.insert(said.index(PARENT) + 1, CHILD)
        ways[CHILD] = lambda: (names[0],)
    first = [(PARENT, (names[0],))] if CHILD in said else []
    return [*first, *((sql, ways[sql]()) for _ in range(chance.randrange(60)) for sql in said)]


class _Undone(Exception):
    pass


async def outcome(world: World, deferred: Sequence[Deferred], parcel: Parcel | None) -> Any:
    """All that is in all tables after these statements, which are undone."""
    found: Any = None
    try:
        async with world.db.transaction() as link:
            for serial in ("plain_n", "child_n", "noted_n", "notes_n"):
                await link.execute(f"ALTER SEQUENCE {serial}_seq RESTART")
            await link.execute('ALTER SEQUENCE "S"."Kinds_n_seq" RESTART')
            if parcel is None:
                await send(link, deferred)
            else:
                await parcel.send(link)
            found = {t: await link.fetch(f"SELECT t::text FROM {t} AS t ORDER BY 1") for t in ALL}
            raise _Undone
    except _Undone:
        return found
    except driver.PostgresError as error:
        return driver.sqlstate(error)


async def pack(world: World, deferred: Sequence[Deferred], way: Deferring | None = None) -> Parcel:
    async with world.db.transaction() as link:
        return await (way or Deferring()).pack(link, deferred)


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_in_the_tables_is_what_one_by_one_would_bring(
    world: World, seed: int
) -> None:
    """Whatever handlers say, and in which order. What cannot be told in advance is refused."""
    await world.db.execute(TABLES)
    chance = random.Random(seed)
    way = Deferring()
    changed = 0
    for _ in range(60):
        deferred = script(chance)
        parcel = await pack(world, deferred, way)
        wanted, found = await outcome(world, deferred, None), await outcome(world, deferred, parcel)
        assert found == wanted or (not parcel.as_said and isinstance(found, str)), deferred
        if isinstance(wanted, str):
            assert isinstance(found, str), deferred
        changed += not parcel.as_said
    assert changed > 5


def shapes(parcel: Parcel) -> list[tuple[str, list[int], bool]]:
    """Of each group: its table, how many rows its parts have, and does each travel as one?"""
    return [
        (g.sql.split()[2], [len(p) for p in g.parts], g.form is not None) for g in parcel.groups
    ]


async def test_statements_of_different_tables_travel_by_their_words(world: World) -> None:
    """Two statements of each entry are two for all of them, instead of a round trip for each."""
    await world.db.execute(TABLES)
    deferred = [d for n in range(100) for d in ((PLAIN, ("x", n)), (COUNT, (f"n{n}",)))]
    assert shapes(await pack(world, deferred)) == [("plain", [100], True), ("counter", [100], True)]
    with_update = [*deferred, ("UPDATE spare SET n = 1 WHERE name = $1", ("x",))]
    assert len(shapes(await pack(world, with_update))) == 3


@pytest.mark.parametrize(
    "besides",
    [
        "UPDATE plain SET size = 1",  # the same table
        "UPDATE public.plain SET size = 1",
        "DELETE FROM parent",  # what refers to it goes, too
        "INSERT INTO noted (name) VALUES ('x')",  # its trigger counts
        "INSERT INTO notes (said) SELECT name FROM plain",
        "SELECT count(*) FROM plain",
    ],
)
async def test_what_may_look_at_others_keeps_everything_in_its_order(
    world: World, besides: str
) -> None:
    await world.db.execute(TABLES)
    deferred: list[Deferred] = [d for n in range(30) for d in ((PLAIN, ("x", n)), (besides, ()))]
    parcel = await pack(world, deferred)
    assert parcel.as_said
    assert [g.sql for g in parcel.groups] == [sql for sql, _ in deferred]
    # Neighbours of a plain table are still one statement, unless something unknown is among them.
    _, neighbours = shapes(await pack(world, [deferred[1], *[deferred[0]] * 30]))
    assert neighbours == ("plain", [30], plain(besides) is not None)


async def test_a_key_that_comes_again_comes_with_a_statement_of_its_own(world: World) -> None:
    """The second of two updates what the first one left. Many small ones are no better than one."""
    await world.db.execute(TABLES)
    names = [f"n{n}" for n in range(40)]
    twice: list[Deferred] = [(COUNT, (name,)) for name in [*names, *names, "n0"]]
    parcel = await pack(world, twice)
    assert shapes(parcel) == [("counter", [40, 40, 1], True)]
    assert await outcome(world, twice, parcel) == await outcome(world, twice, None)
    often: list[Deferred] = [(COUNT, (name,)) for name in names[: MANY_ROWS - 1] * 40]
    assert shapes(await pack(world, often)) == [("counter", [len(often)], False)]


@pytest.mark.parametrize(
    ("besides", "table"),
    [
        (None, "plain"),
        (COUNT, "plain"),
        (COUNT, "counter"),
        ("UPDATE counter SET n = n + 1 WHERE name = $1", "plain"),
        ("UPDATE counter SET n = n + 1 WHERE name = $1", "counter"),
    ],
)
async def test_a_trigger_is_seen_as_soon_as_it_is_there(
    world: World, besides: str | None, table: str
) -> None:
    """It was not when the statement was made, and is when it runs."""
    await world.db.execute(TABLES)
    way = Deferring()
    deferred: list[Deferred] = [(PLAIN, ("x", n)) for n in range(20)]
    if besides is not None:
        deferred = [d for n, one in enumerate(deferred) for d in (one, (besides, (f"n{n}",)))]
    for _ in range(2):
        async with world.db.transaction() as link:
            parcel = await way.pack(link, deferred)
            assert not parcel.as_said
            await parcel.send(link)
    await world.db.execute(
        f"CREATE TRIGGER later AFTER INSERT OR UPDATE ON {table} EXECUTE FUNCTION note()"
    )
    with pytest.raises(driver.PostgresError, match=f"{table} is not plain any more") as raised:
        async with world.db.transaction() as link:
            await (await way.pack(link, deferred)).send(link)
    way.refused(raised.value)
    async with world.db.transaction() as link:
        parcel = await way.pack(link, deferred)
        assert not parcel.tables
        await parcel.send(link)
    assert await world.val("SELECT count(*) FROM plain") == 60
    both = besides == COUNT and table == "counter"  # an upsert is an INSERT and an UPDATE
    assert await world.val("SELECT count(*) FROM notes") == (40 if both else 20)
    # It says nothing about other tables.
    assert not (await pack(world, [(PARENT, (f"n{n}",)) for n in range(20)], way)).as_said


TWO = "CREATE TABLE a (n int, name text UNIQUE); CREATE TABLE b (n int, name text);"
A, B = "INSERT INTO a (name) VALUES ($1)", "INSERT INTO b (name) VALUES ($1)"
SWAP = (
    "UPDATE a SET n = CASE name WHEN 'x5' THEN 1000 ELSE 0 END"
    " WHERE $1 = 'x5' AND name IN ('x5', 'x6')"
)
SEQUENCES = "SELECT relname FROM pg_class WHERE relkind = 'S' AND relname IN ('s', 'a_n_seq')"


def counting(name: str, table: str, kind: str = "STABLE", takes: str = "") -> str:
    """A function that looks at a table."""
    return (
        f"CREATE FUNCTION {name}({takes}) RETURNS int LANGUAGE plpgsql {kind} AS"
        f" $$ BEGIN RETURN (SELECT count(*) FROM {table}); END $$;"
    )


@pytest.mark.parametrize(
    ("made", "texts"),
    [
        (
            "CREATE TABLE a (n serial, name text);"
            "CREATE TABLE b (n int DEFAULT currval('a_n_seq'), name text)",
            [A, B],
        ),
        (
            "CREATE TABLE a (n serial, name text);"
            "CREATE TABLE b (n int DEFAULT lastval(), name text)",
            [A, B],
        ),
        (
            "CREATE SEQUENCE s; CREATE TABLE a (n int DEFAULT nextval('s'), name text);"
            "CREATE TABLE b (n int DEFAULT nextval('s'), name text)",
            [A, B],
        ),
        (TWO + counting("f", "b", "VOLATILE") + "ALTER TABLE a ALTER n SET DEFAULT f()", [A, B]),
        (TWO + counting("f", "a") + "ALTER TABLE a ALTER n SET DEFAULT f()", [A]),
        (
            TWO + counting("f", "a") + "CREATE DOMAIN d AS int DEFAULT f();"
            "ALTER TABLE a ALTER n TYPE d",
            [A],
        ),
        (TWO + counting("f", "a") + "ALTER TABLE a ADD CHECK (f() < 3)", [A]),
        (
            TWO + counting("f", "b") + "CREATE DOMAIN d AS text CHECK (f() < 3);"
            "ALTER TABLE a ALTER name TYPE d",
            [A, B],
        ),
        (
            TWO + counting("f", "b") + "CREATE DOMAIN d AS text CHECK (f() < 3)",
            [A.replace("$1", "$1::text::d"), B],
        ),
        (
            TWO + counting("f", "b", takes="a") + "INSERT INTO a SELECT 0, n FROM names",
            [B, "UPDATE a SET n = a.f WHERE name = $1"],
        ),
        (
            TWO
            + counting("f", "a WHERE n > 0", takes="a")
            + "INSERT INTO a SELECT CASE n WHEN 'x0' THEN 1 END, n FROM names",
            [A + " ON CONFLICT (name) DO UPDATE SET n = a.f"],
        ),
        (
            TWO
            + counting("f", "b", takes="text, text")
            + "CREATE OPERATOR ##% (FUNCTION = f, LEFTARG = text, RIGHTARG = text)",
            ["INSERT INTO a (name, n) VALUES ($1, 'x'::text ##% 'y'::text)", B],
        ),
        (
            TWO + "ALTER TABLE a ADD UNIQUE (n); INSERT INTO a VALUES (0, 'x5'), (1, 'x6');"
            "ALTER TABLE b ADD FOREIGN KEY (n) REFERENCES a (n) ON UPDATE CASCADE",
            [SWAP, "INSERT INTO b (n, name) VALUES (0, $1)"],
        ),
    ],
)
async def test_whatever_looks_around_sees_what_it_would_see(
    world: World, made: str, texts: list[str]
) -> None:
    """Defaults, checks, domains, operators, casts, keys that move: all is as if one by one."""
    await world.db.execute(
        "CREATE TABLE names AS SELECT 'x' || n AS n FROM generate_series(0, 39) n"
    )
    await world.db.execute(made)
    deferred: list[Deferred] = [(sql, (f"x{n}",)) for n in range(40) for sql in texts]
    told: list[Any] = []
    for parcel in (None, await pack(world, deferred)):
        try:
            async with world.db.transaction() as link:
                for (name,) in await link.fetch(SEQUENCES):
                    await link.execute(f"ALTER SEQUENCE {name} RESTART")
                await (send(link, deferred) if parcel is None else parcel.send(link))
                tables = [t for t in ("a", "b") if f"TABLE {t} " in made]
                told.append([await link.fetch(f"SELECT t::text FROM {t} t") for t in tables])
                raise _Undone
        except _Undone:
            pass
        except driver.PostgresError as error:
            told.append(driver.sqlstate(error))
    assert told[0] == told[1]
    assert told[0] == "23514" or isinstance(told[0], list)  # a check, or all that is there


async def test_a_statement_that_may_do_anything_comes_where_it_was_said(world: World) -> None:
    """What was asked about a table before it may not be true after it."""
    await world.db.execute(TABLES)
    alter = "ALTER TABLE plain ADD COLUMN IF NOT EXISTS more int"
    deferred: list[Deferred] = [(alter, ()), *[("INSERT INTO plain (more) VALUES ($1)", (1,))] * 40]
    async with world.db.transaction() as link:
        parcel = await Deferring().pack(link, deferred)
        assert parcel.as_said
        await parcel.send(link)
    assert await world.val("SELECT sum(more) FROM plain") == 40


async def test_who_cannot_be_one_of_many_does_not_spoil_it_for_others(world: World) -> None:
    """A statement with a trigger beside many without: nothing is refused, time and again."""
    await world.db.execute(TABLES)
    way = Deferring()
    beside = ("INSERT INTO noted (name) VALUES ('x')", ())
    deferred: list[Deferred] = [*[(PLAIN, ("x", n)) for n in range(20)], beside]
    for _ in range(2):
        async with world.db.transaction() as link:
            parcel = await way.pack(link, deferred)
            assert shapes(parcel) == [("plain", [20], True), ("noted", [1], False)]
            await parcel.send(link)
    assert await world.val("SELECT count(*) FROM plain") == 40


async def test_what_was_seen_is_forgotten_after_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is no reason to be slow for ever; a column may have become another one."""
    await world.db.execute(TABLES)
    way = Deferring()
    deferred: list[Deferred] = [(PLAIN, ("x", n)) for n in range(20)]
    assert not (await pack(world, deferred, way)).as_said
    way.refused(ValueError("something else"))
    assert (await pack(world, deferred, way)).as_said
    now = monotonic()
    monkeypatch.setattr(deferring, "monotonic", lambda: now + deferring.LOOK_AGAIN_SECONDS)
    (group,) = (await pack(world, deferred, way)).groups
    assert group.form is not None
    assert group.form.types == ["text", "int4"]
    await world.db.execute("ALTER TABLE plain ALTER size TYPE bigint")
    monkeypatch.setattr(deferring, "monotonic", lambda: now + 2 * deferring.LOOK_AGAIN_SECONDS)
    (group,) = (await pack(world, deferred, way)).groups
    assert group.form is not None
    assert group.form.types == ["text", "int8"]


@pytest.mark.parametrize(
    "wrong", [("x",), ("x", 1, 2), (["x"], [1]), ("x", [1]), (1, "x"), ("\0", 1)]
)
async def test_what_the_driver_would_refuse_does_not_slip_through(
    world: World, wrong: tuple[Any, ...]
) -> None:
    """A list is no value, although many of them look like an array of arrays."""
    await world.db.execute(TABLES)
    for deferred in ([(PLAIN, wrong)] * 20, [*[(PLAIN, ("x", 1))] * 20, (PLAIN, wrong)]):
        parcel = await pack(world, deferred)
        async with world.db.connection() as link:
            with pytest.raises(REFUSED):
                await parcel.send(link)
        assert await world.val("SELECT count(*) FROM plain") in (0, 20)
        await world.db.execute("TRUNCATE plain")


async def test_texts_with_values_in_them_are_looked_at_no_further(world: World) -> None:
    """Nothing is remembered of a thousand texts, and their tables are not asked for."""
    await world.db.execute(TABLES)
    way = Deferring()
    deferred: list[Deferred] = [(f"INSERT INTO plain (size) VALUES ({n})", ()) for n in range(100)]
    assert (await pack(world, deferred, way)).as_said
