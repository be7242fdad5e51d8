"""Which statements touch one table and look at nothing else: only what is surely so counts."""

from __future__ import annotations

import pytest

from headgate.ledger.plain import plain

UPSERT = "INSERT INTO t (k, n) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n"


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (
            "INSERT INTO t (a, b) VALUES ($1, $2)",
            "INSERT INTO t (a, b) SELECT headgate_many.a1, headgate_many.a2"
            " FROM unnest(A, B) AS headgate_many (a1, a2) WHERE true",
        ),
        (
            "\n insert\n into t as x values ( $2::jsonb , now(), 'it''s ($3',"
            " coalesce($1,0), NULL)\n",
            "insert\n into t as x SELECT headgate_many.a2::jsonb , now(), 'it''s ($3',"
            " coalesce(headgate_many.a1,0), NULL"
            " FROM unnest(A, B) AS headgate_many (a1, a2) WHERE true",
        ),
        (
            UPSERT,
            "INSERT INTO t (k, n) SELECT headgate_many.a1, headgate_many.a2"
            " FROM unnest(A, B) AS headgate_many (a1, a2) WHERE true"
            " ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n",
        ),
        (
            'INSERT INTO "S"."my ""t""(" ("a,b", c) VALUES ($1, 1.5) ON CONFLICT DO NOTHING',
            'INSERT INTO "S"."my ""t""(" ("a,b", c) SELECT headgate_many.a1, 1.5'
            " FROM unnest(A) AS headgate_many (a1) WHERE true ON CONFLICT DO NOTHING",
        ),
    ],
)
def test_an_insert_of_one_row_is_read_as_one_of_many(sql: str, wanted: str) -> None:
    read = plain(sql)
    assert read is not None
    assert read.touches == ("upd" if "UPDATE" in sql else "")
    assert read.many is not None
    assert read.many.sql(["A", "B"][: read.many.arguments], "true") == wanted


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        (UPSERT, (0,)),
        (UPSERT.replace("(k)", '( "k" )').replace("k, n", "n, K"), (1,)),
        (UPSERT.replace("ON CONFLICT (k)", "ON CONFLICT (n, k)"), (1, 0)),
        (UPSERT.replace("$1", " $1 :: text "), (0,)),
        (UPSERT.replace("k, n", '"a,b", k').replace("(k)", '("a,b")'), (0,)),
        ("INSERT INTO t (k) VALUES ($1) ON CONFLICT (k) DO NOTHING", ()),
        ("INSERT INTO t (k) VALUES ($1)", ()),
    ],
)
def test_what_is_updated_is_known_by_its_key(sql: str, key: tuple[int, ...]) -> None:
    read = plain(sql)
    assert read is not None
    assert read.many is not None
    assert read.many.key == key


@pytest.mark.parametrize(
    ("sql", "table", "touches"),
    [
        ("INSERT INTO t VALUES (1)", "t", ""),  # nothing in it differs
        ("INSERT INTO t (a) VALUES ($1), ($2)", "t", ""),
        ("INSERT INTO t (k) VALUES ($1) ON CONFLICT (k) DO UPDATE SET n = $2", "t", "upd"),
        ("INSERT INTO t VALUES ($1) ON CONFLICT (k) DO UPDATE SET n = 1", "t", "upd"),
        ("INSERT INTO t (n) VALUES ($1) ON CONFLICT (k) DO UPDATE SET n = 1", "t", "upd"),
        (UPSERT.replace("$1", "lower($1)"), "t", "upd"),  # two arguments, one key
        (UPSERT.replace("(k) DO", "ON CONSTRAINT c DO"), "t", "upd"),
        (UPSERT.replace("(k) DO", "(k) WHERE n > 0 DO"), "t", "upd"),
        ("UPDATE t SET n = n + $1 WHERE k IN ($2, $3)", "t", "upd"),
        ('update s."T" as x set n = 1 where x.n is distinct from $1', 's."T"', "upd"),
        ("DELETE FROM t WHERE k = $1", "t", "del"),
        ("DELETE FROM t", "t", "del"),
    ],
)
def test_what_cannot_be_one_of_many_may_still_move(sql: str, table: str, touches: str) -> None:
    read = plain(sql)
    assert read is not None
    assert (read.table, read.touches, read.many) == (table, touches, None)


def test_what_follows_a_dot_has_to_be_a_column() -> None:
    """`t.seen` may be a function of a whole row."""
    read = plain('UPDATE s.t AS x SET n = x.N + x."A ""b" - 1.5 WHERE x . seen > .5')
    assert read is not None
    assert read.columns == {"n", 'A "b', "seen"}


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (a) VALUES ((SELECT 1))",
        "INSERT INTO t (a) SELECT $1",
        "INSERT INTO t (a) VALUES (DEFAULT)",
        "INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES ($1)",
        "INSERT INTO t (a) VALUES ($1) RETURNING a",
        "INSERT INTO t (a) VALUES (count_them($1))",
        'INSERT INTO t (a) VALUES ("count them"($1))',
        "INSERT INTO t (a) VALUES (s.now())",
        "INSERT INTO t (a) VALUES ($1::mine)",
        "INSERT INTO t (a) VALUES ($1::s.text)",
        'INSERT INTO t (a) VALUES ($1::"text")',
        "INSERT INTO t (a) VALUES (CAST($1 AS mine))",
        "INSERT INTO t (a) VALUES (mine '1')",
        "INSERT INTO t (a) VALUES ($1 ##% $2)",
        "INSERT INTO t (a) VALUES ($1 OPERATOR(s.+) $2)",
        "UPDATE t SET n = (t).seen",
        "INSERT INTO t (a) VALUES (nextval('s'))",
        "INSERT INTO t (a) VALUES (E'\\'')",
        "INSERT INTO t (a) VALUES ('\\')",
        "INSERT INTO t (a) VALUES (U&'x')",
        "INSERT INTO t (a) VALUES ($$x$$)",
        "INSERT INTO t (a) VALUES ($1) -- (",
        "INSERT INTO t (a) VALUES ($1 /* ) */)",
        "INSERT INTO t (a) VALUES ($1);",
        "INSERT INTO t (a) VALUES ('x",
        "INSERT INTO tü (a) VALUES ($1)",
        "INSERT INTO t (a[1]) VALUES ($1)",
        "INSERT INTO t (a) VALUES (ARRAY[$1])",
        UPSERT + " WHERE EXISTS (SELECT FROM u)",
        UPSERT + " + total(t)",
        "WITH x AS (SELECT 1) INSERT INTO t (a) VALUES ($1)",
        "UPDATE ONLY t SET n = 1",
        "UPDATE t SET n = u.n FROM u",
        "UPDATE t SET n = (TABLE u)",
        "UPDATE t SET n = DEFAULT",
        "UPDATE t SET n = 1 WHERE CURRENT OF c",
        "DELETE FROM t USING u WHERE t.k = u.k",
        "DELETE FROM ONLY t",
        "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN DELETE",
        "TRUNCATE t",
        "SELECT 1",
        "CALL f()",
        "",
    ],
)
def test_whatever_is_not_known_counts_as_looking_around(sql: str) -> None:
    assert plain(sql) is None
