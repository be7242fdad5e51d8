"""Where a setting's value comes from, and what happens to a bad one."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.errors import ConfigError, UsageError
from headgate.settings import DECLARED, Settings, variable


def load(cwd: Path, environ: dict[str, str] | None = None, **overrides: object) -> Settings:
    return Settings.load(overrides, environ or {}, cwd)


def refusal(cwd: Path, environ: dict[str, str] | None = None, **overrides: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(cwd, environ, **overrides)
    return caught.value


def test_without_a_word_everything_has_its_default(tmp_path: Path) -> None:
    """A newcomer sets nothing, and it runs: embedded, at home in this folder."""
    settings = load(tmp_path)
    assert settings.embedded
    assert settings.home == tmp_path / ".headgate"
    assert (settings.lease_seconds, settings.heartbeat_seconds) == (900, 30)
    assert (settings.retention_days, settings.backfill_days) == (90, 90)
    assert {settings.origin(name) for name in DECLARED} == {"default"}


def test_the_nearest_word_wins_and_says_where_it_was_said(tmp_path: Path) -> None:
    """Option over environment over headgate.toml over pyproject.toml over default."""
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    pyproject, toml = tmp_path / "pyproject.toml", tmp_path / "headgate.toml"
    names = ("workers", "batch_max", "concurrency", "retention_days")
    pyproject.write_text("[tool.headgate]\n" + "".join(f"{name} = 101\n" for name in names))
    toml.write_text("".join(f"{name} = 102\n" for name in names[:3]))
    environ = {variable(name): "103" for name in names[:2]}
    settings = load(deep, environ, workers=104)
    assert [getattr(settings, name) for name in names] == [104, 103, 102, 101]
    assert [settings.origin(name) for name in (*names, "poll_seconds")] == [
        "option",
        "environment HEADGATE_BATCH_MAX",
        str(toml),
        str(pyproject),
        "default",
    ]


def test_only_the_nearest_file_of_a_name_is_read(tmp_path: Path) -> None:
    """A project inside another one is not governed by the outer one's file."""
    (tmp_path / "headgate.toml").write_text("workers = 7\nconcurrency = 7\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "headgate.toml").write_text("workers = 9\n")
    settings = load(inner)
    assert (settings.workers, settings.concurrency) == (9, 4)


def test_a_pyproject_that_does_not_speak_of_us_is_passed_over(tmp_path: Path) -> None:
    """The nearest pyproject.toml is a library's, broken even; ours is above it."""
    (tmp_path / "pyproject.toml").write_text("[tool.headgate]\nworkers = 5\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project\nname = ")
    assert load(inner).workers == 5


def test_every_setting_can_be_said_in_every_way(tmp_path: Path) -> None:
    """There is no setting that only the environment, or only the file, knows."""
    values = {
        "database_url": "postgresql://u@h/db",
        "home": "/srv/headgate",
        "log_format": "json",
        "log_level": "debug",
        "metrics_host": "::1",
        "serve_host": "::1",
        "crash_at": "before:claim:3",
        "egress_allow": "files.example:8080, .internal.example, 10.1.0.0/16",
        "otlp_endpoint": "http://127.0.0.1:4318",
        "trace_share": "0.1",
        "energy": "true",
        "energy_overhead": "1.5",
        "serve": "true",
        "serve_url": "https://data.example/headgate",
        "serve_origins": "https://browser.example, http://localhost:8080",
        "oidc_issuer": "https://login.example/realms/main",
        "oidc_roles": "data-team=operator, sre=admin",
        "oidc_audience": "headgate",
        "oidc_role_claim": "realm_access.roles",
        "serve_hosts": "data.example",
        "pooler": "true",
        "allow_unsafe_database": "on",
        "heartbeat_seconds": "10",
        "max_envelope_bytes": "4096",
        "cache_folder": "/srv/copies",
        "cache_bytes": "1048576",
        "grace_seconds": "90000",
        "layout": "kfm",
    }
    values = {name: values.get(name, "60") for name in DECLARED} | {
        "schema": "s",
        "env": "dev",
        "error_budget": "0.5",
        "slo_duplicates": "0.5",
        "slo_latency_share": "0.5",
        "slo_dead_letters": "0.5",
        "slo_window_seconds": "7d",
        "incident_hook": "page someone",
    }
    by_environment = load(tmp_path, {variable(name): value for name, value in values.items()})
    text = "".join(f'{name} = "{value}"\n' for name, value in values.items() if not value.isdigit())
    text += "".join(f"{name} = {value}\n" for name, value in values.items() if value.isdigit())
    (tmp_path / "headgate.toml").write_text(text)
    assert load(tmp_path) == by_environment == Settings.load(values, {}, tmp_path)
    assert not any(by_environment.origin(name) == "default" for name in DECLARED)


@pytest.mark.parametrize(
    ("said", "seconds"), [("90", 90), ("1.5", 1.5), ("15m", 900), ("500ms", 0.5), (45, 45)]
)
def test_durations_are_seconds_or_what_people_write(
    tmp_path: Path, said: object, seconds: float
) -> None:
    """`15m` says the same as 900."""
    assert load(tmp_path, lease_seconds=said).lease_seconds == seconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_seconds", "soon"),
        ("lease_seconds", "-1"),
        ("lease_seconds", "nan"),
        ("lease_seconds", "inf"),
        ("workers", "0"),
        ("workers", "2.5"),
        ("workers", "9" * 5000),
        ("pooler", "maybe"),
        ("schema", 'x"; drop schema public'),
        ("schema", "pg_mine"),
        ("log_level", "loud"),
        ("metrics_port", "65536"),
        ("database_url", "mysql://host/db"),
        ("env", "a b"),
        ("crash_at", "nowhere"),
        ("home", "a\0b"),
    ],
)
def test_a_bad_value_is_refused_by_name_place_value_and_what_is_allowed(
    tmp_path: Path, name: str, value: str
) -> None:
    """The operator reads which variable is wrong and what it may be, without opening the docs."""
    error = refusal(tmp_path, {variable(name): value})
    assert f"{name} cannot be" in str(error)
    assert f"(environment {variable(name)})" in str(error)
    assert f"Allowed: {DECLARED[name].kind.allowed}." in str(error)
    assert DECLARED[name].default in error.hint
    assert len(str(error)) < 400
    assert isinstance(error, UsageError)


@pytest.mark.parametrize("said", ['"4"', "true", "4.0", "[4]", "{ n = 4 }", "1979-05-27"])
def test_a_value_of_another_type_in_the_file_names_the_file(tmp_path: Path, said: str) -> None:
    """TOML has types; a list where a number belongs is said to be wrong in that file."""
    path = tmp_path / "headgate.toml"
    path.write_text(f"workers = {said}\n")
    if said == '"4"':
        assert load(tmp_path).workers == 4
    else:
        assert str(path) in str(refusal(tmp_path))


def test_an_unknown_key_in_the_file_is_refused_with_the_likely_one(tmp_path: Path) -> None:
    """A misspelt key is never silently the default."""
    (tmp_path / "headgate.toml").write_text("lease_secs = 10\n")
    error = refusal(tmp_path)
    assert "lease_secs" in str(error)
    assert "headgate.toml" in str(error)
    assert error.hint == "Did you mean lease_seconds?"


@pytest.mark.parametrize("name", ["HEADGATE_LEASE_SECOND", "HEADGATE_LEASE", "HEADGATE_LOGLEVEL"])
def test_a_misspelt_variable_is_refused(tmp_path: Path, name: str) -> None:
    """`HEADGATE_LEASE=60` would otherwise leave the lease at fifteen minutes."""
    error = refusal(tmp_path, {name: "60"})
    assert name in str(error)
    assert "HEADGATE_L" in error.hint


def test_other_variables_of_that_prefix_are_somebody_elses(tmp_path: Path) -> None:
    """A user's own HEADGATE_ variable that is like none of ours does no harm."""
    load(tmp_path, {"HEADGATE_TEST_DATABASE_URL": "x", "HEADGATE_RELEASE_NOTES": "y"})


def test_a_file_that_is_no_toml_is_named_with_the_line(tmp_path: Path) -> None:
    """The message leads to the place in the file."""
    (tmp_path / "headgate.toml").write_text("workers = 1\nworkers = \n")
    assert "headgate.toml is not valid TOML" in str(error := refusal(tmp_path))
    assert "line 2" in str(error)


def test_empty_is_unset(tmp_path: Path) -> None:
    """`HEADGATE_WORKERS= headgate up` is as if it were not there."""
    (tmp_path / "headgate.toml").write_text('workers = 5\ndatabase_url = ""\n')
    settings = load(tmp_path, {"HEADGATE_WORKERS": "", "PGHOST": ""}, workers=None, schema="")
    assert settings.workers == 5
    assert settings.schema == "headgate"
    assert settings.embedded


def test_home_is_relative_to_who_said_it(tmp_path: Path) -> None:
    """Started from a sub-folder, a project finds the same home."""
    deep = tmp_path / "deep"
    deep.mkdir()
    (tmp_path / "headgate.toml").write_text("workers = 1\n")
    assert load(deep).home == tmp_path / ".headgate"
    (tmp_path / "headgate.toml").write_text('home = "../elsewhere"\n')
    assert load(deep).home == tmp_path.parent / "elsewhere"
    assert load(deep, {"HEADGATE_HOME": "here"}).home == deep / "here"
    assert load(deep, home="~/there").home == Path.home() / "there"


def test_libpq_variables_name_the_server_when_nothing_else_does(tmp_path: Path) -> None:
    """Where psql would connect, Headgate does; a DSN, or the word embedded, comes first."""
    libpq = {"PGHOST": "/run/my pg", "PGPORT": "5433", "PGDATABASE": "rain", "PGPASSWORD": "s3cr"}
    settings = load(tmp_path, libpq)
    assert settings.database_url == "postgresql://?host=%2Frun%2Fmy%20pg&port=5433&dbname=rain"
    assert settings.origin("database_url") == "environment PGHOST"
    assert load(tmp_path, {"PGSERVICE": "x"}).database_url == "postgresql://?service=x"
    assert load(tmp_path, {"PGUSER": "me", "PGPASSWORD": "x"}).embedded
    (tmp_path / "headgate.toml").write_text('database_url = "postgresql://h/x"\n')
    assert load(tmp_path, libpq).database_url == "postgresql://h/x"
    assert load(tmp_path, libpq, database_url="embedded").embedded


def test_drivers_understand_the_server_that_libpq_variables_name(tmp_path: Path) -> None:
    """The DSN made of them reaches the same socket, port and database in libpq and asyncpg."""
    from asyncpg.connect_utils import _parse_connect_dsn_and_args as parse_dsn
    from psycopg.conninfo import conninfo_to_dict

    url = load(tmp_path, {"PGHOST": "/run/pg", "PGPORT": "5433", "PGDATABASE": "r/n"}).database_url
    assert conninfo_to_dict(url) == {"host": "/run/pg", "port": "5433", "dbname": "r/n"}
    given = dict.fromkeys(parse_dsn.__code__.co_varnames[: parse_dsn.__code__.co_kwonlyargcount])
    addresses, parameters = parse_dsn(**{**given, "dsn": url, "direct_tls": False})
    assert addresses == ["/run/pg/.s.PGSQL.5433"]
    assert parameters.database == "r/n"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@db.example/rain",
        "postgresql://me:x@hunter2/y@db.example/rain",
        "postgresql://db.example/rain?user=me&password=hunter2",
    ],
)
def test_no_password_is_ever_shown(tmp_path: Path, url: str) -> None:
    """Neither `config show` nor an error nor a repr gives the database's password away."""
    settings = load(tmp_path, {"HEADGATE_DATABASE_URL": url})
    rows = {row.name: row for row in settings.rows()}
    assert settings.database_url == url
    assert "***" in str(rows["database_url"].value)
    assert "db.example" in str(rows["database_url"].value)
    assert "hunter2" not in f"{[*rows.values()]} {settings!r}"
    error = refusal(tmp_path, {"HEADGATE_DATABASE_URL": "x" + url.replace("hunter2", "hunter2 ")})
    assert "hunter2" not in f"{error} {error.__cause__} {error.__context__}"


def test_config_show_has_a_row_for_each_setting(tmp_path: Path) -> None:
    """What counts here, from where, and by which variable it could be changed."""
    rows = list(load(tmp_path, {"HEADGATE_WORKERS": "3"}).rows())
    assert [row.name for row in rows] == [name for name in DECLARED if name != "crash_at"]
    by_name = {row.name: row for row in rows}
    assert by_name["workers"] == ("workers", 3, "environment HEADGATE_WORKERS", "HEADGATE_WORKERS")
    assert by_name["database_url"].value == "embedded"
    assert "crash_at" in {row.name for row in load(tmp_path, crash_at="staged").rows()}


def test_retention_shorter_than_the_backfill_window_is_refused(tmp_path: Path) -> None:
    """A backfill never meets a history that was already dropped."""
    error = refusal(tmp_path, {"HEADGATE_RETENTION_DAYS": "89"})
    assert "retention_days 89 (environment HEADGATE_RETENTION_DAYS) must be at least" in str(error)
    assert "backfill_days 90 (default)" in str(error)
    load(tmp_path, retention_days=89, backfill_days=89)


def test_a_lease_that_two_lost_beats_would_end_is_refused(tmp_path: Path) -> None:
    """A heartbeat of 30 s and a lease of 90 s is a worker that loses its work by bad luck."""
    assert "heartbeat_seconds 30" in str(refusal(tmp_path, lease_seconds=90, heartbeat_seconds=30))
    load(tmp_path, lease_seconds=91, heartbeat_seconds=30)


def test_a_short_lease_alone_brings_its_heartbeat_along(tmp_path: Path) -> None:
    """Who sets only the lease does not have to know about heartbeats; the same for the grace."""
    assert load(tmp_path, lease_seconds=3).heartbeat_seconds == 0.5
    assert load(tmp_path, deadline_seconds="2d").grace_seconds == 4 * 86_400


def test_a_grace_shorter_than_a_handler_may_run_is_refused(tmp_path: Path) -> None:
    """No staged object is collected under a handler that is still running."""
    assert "grace_seconds 3600" in str(refusal(tmp_path, grace_seconds=3600))


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    """An embedding program's typo is an error, not a default."""
    assert refusal(tmp_path, worker=3).hint == "Did you mean workers?"


def test_crash_points_carry_their_count(tmp_path: Path) -> None:
    """`before:claim:3` is the third visit of `before:claim`."""
    assert load(tmp_path, crash_at="before:claim:3").crash == ("before:claim", 3)
    assert load(tmp_path, crash_at="after:finalize").crash == ("after:finalize", 1)
    assert load(tmp_path).crash is None


def test_settings_travel_to_another_process(tmp_path: Path) -> None:
    """A worker that is handed settings has the same ones, origins included."""
    settings = load(tmp_path, workers=1)
    copy = pickle.loads(pickle.dumps(settings))
    assert copy == settings
    assert copy.origin("workers") == "option"


def test_importing_settings_costs_a_command_next_to_nothing() -> None:
    """`headgate --help` is quick: no library beyond the standard one is loaded for settings."""
    code = "import sys, headgate.settings; print(*sorted(m.split('.')[0] for m in sys.modules))"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    foreign = {"pydantic", "asyncpg", "structlog", "rich", "prometheus_client", "tomllib", "orjson"}
    assert not foreign & set(done.stdout.split())
