"""The table of settings. A field here is all it takes to have a setting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from .kind import (
    Kind,
    crash_point,
    egress,
    flag,
    folder,
    layout,
    matching,
    number,
    one_of,
    seconds,
    share,
    split_crash_point,
    whole,
)

if TYPE_CHECKING:
    from headgate.model.energy import Assumed
    from headgate.runtime.ledger_home import Ledger
    from headgate.runtime.tuning import Tuning

T = TypeVar("T")
Derive = Callable[[Mapping[str, float]], float]
# Said for `database_url`, it means our own server whatever the environment says.
EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Declared:
    """Everything about a setting but its value. `default` is the way the reference writes it."""

    help: str
    kind: Kind[object]
    default: str
    derive: Derive | None
    secret: bool
    testing: bool


def setting(
    default: T,
    help: str,
    kind: Kind[T],
    *,
    shown: str | None = None,
    derive: Derive | None = None,
    secret: bool = False,
    testing: bool = False,
) -> T:
    """Declare a field. `derive` computes the default of one that depends on another's value."""
    said = shown if shown is not None else f"`{plain(default)}`"
    about = Declared(help, cast("Kind[object]", kind), said, derive, secret, testing)
    return field(default=default, repr=not secret, metadata={"declared": about})


def plain(value: object) -> str:
    """The value as one would write it in a file or a variable."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Row(NamedTuple):
    """A line of `headgate config show`. Secrets in `value` are masked."""

    name: str
    value: str | float | bool
    origin: str
    variable: str


@dataclass(frozen=True)
class Settings:
    """How Headgate runs here. One that comes from `load` has been checked as a whole."""

    database_url: str = setting(
        "",
        "The PostgreSQL server of the ledger. Without it libpq's variables count (`PGHOST`, "
        "`PGSERVICE`, …); without those a server is embedded. `embedded` insists on that.",
        matching(rf"{EMBEDDED}|postgres(ql)?://\S*", f"postgresql://user@host/name, or {EMBEDDED}"),
        shown="embedded",
        secret=True,
    )
    schema: str = setting(
        "headgate",
        "The schema the ledger lives in.",
        matching(
            r"(?!pg_)[a-z_][a-z0-9_]{0,55}",
            "lower-case letters, digits and underscores, up to 56, not beginning with pg_",
        ),
    )
    home: Path = setting(  # noqa: RUF009 (it is a field)
        Path(".headgate"),
        "Where Headgate keeps what is its own on this machine, such as the embedded server.",
        folder(),
    )
    pooler: bool = setting(
        False, "Connect through a transaction pooler: no prepared statements are kept.", flag()
    )
    allow_unsafe_database: bool = setting(
        False,
        "Run on a server with `fsync` or `synchronous_commit` off, which may lose what was "
        "acknowledged.",
        flag(),
    )
    env: str = setting(
        "",
        "A name for this installation (`dev`, `prod`), carried by every metric as `env`.",
        matching(r"[\w.-]{0,63}", "letters, digits, underscores, dots and dashes, up to 63"),
        shown="none",
    )
    lease_seconds: float = setting(
        900.0,
        "How long a worker that cannot be heard keeps its entries.",
        seconds(0.1, 86_400),
    )
    heartbeat_seconds: float = setting(
        30.0,
        "How often a worker's lease is renewed. Less than a third of `lease_seconds`.",
        seconds(0.01, 28_800),
        shown="`30`, or a sixth of a short lease",
        derive=lambda v: min(30.0, v["lease_seconds"] / 6),
    )
    workers: int = setting(
        min(2, os.cpu_count() or 1),
        "Worker processes.",
        whole(1, 256),
        shown="`2`, or `1` on a single core",
    )
    concurrency: int = setting(
        4, "Handlers that run at once in a worker: threads, or tasks when `async`.", whole(1, 1024)
    )
    batch_max: int = setting(1000, "Entries finalized by one commit, at most.", whole(1, 10_000))
    backlog_max: int = setting(
        100_000,
        "Entries of a pipeline that are ready, at which its queues are not received from.",
        whole(1, 1_000_000_000),
    )
    poll_seconds: float = setting(
        0.1,
        "How long an idle worker that was told nothing waits before it looks, at most.",
        seconds(0.001, 60),
    )
    deadline_seconds: float = setting(
        3600.0, "How long a handler may take for one entry.", seconds(0.01, 604_800)
    )
    apply_seconds: float = setting(
        60.0, "How long an `apply` may take inside the commit.", seconds(0.01, 3600)
    )
    drain_seconds: float = setting(
        30.0, "How long a worker that is told to stop lets its handlers finish.", seconds(0, 3600)
    )
    sweep_seconds: float = setting(
        5.0, "How often lost leases and due retries are looked for.", seconds(0.01, 3600)
    )
    anchor_seconds: float = setting(
        60.0,
        "How often the head of the journal's chain is anchored in the store.",
        seconds(0.01, 86_400),
    )
    layout: str = setting(
        "",
        "In which folders of a store the files of its catalog are: `plain` (`stac/`, "
        "`catalog/dcat/`, `prov/`, `runs/`), `kfm` (`data/stac/`, `data/catalog/dcat/`, "
        "`data/prov/`, `mcp/runs/change-detection/`), or folders of your own. The ledger keeps it: "
        "what a worker was started with last holds for all who write or read there.",
        layout(),
        shown="as the ledger has it: `plain`, at first",
    )
    grace_seconds: float = setting(
        86_400.0,
        "How long a staged object that nothing refers to is kept. More than `deadline_seconds`.",
        seconds(0.01, 31_536_000),
        shown="`86400`, or twice a long deadline",
        derive=lambda v: max(86_400.0, 2 * v["deadline_seconds"]),
    )
    retention_days: int = setting(
        90,
        "How long the past can be brought back: what was replaced or removed keeps its bytes for "
        "so long, and envelopes and journal stay in the ledger. Not less than `backfill_days`.",
        whole(1, 36_500),
    )
    backfill_days: int = setting(90, "How far back a source may be read again.", whole(0, 36_500))
    max_wait_seconds: float = setting(
        60.0,
        "How long `up --until-idle` waits for a retry that is due, or for a source that is away.",
        seconds(0, 86_400),
    )
    error_budget: float = setting(
        0.05,
        "The share of a pipeline's attempts that may fail before it is slowed down.",
        share(),
    )
    error_budget_seconds: float = setting(
        600.0, "The time over which `error_budget` is counted.", seconds(10, 86_400)
    )
    slo_duplicates: float = setting(
        0.01,
        "The share of a pipeline's deliveries that may tell what is known already.",
        share(),
    )
    slo_latency_seconds: float = setting(
        300.0, "How long an entry may take from its receipt to its end.", seconds(0.01, 604_800)
    )
    slo_latency_share: float = setting(
        0.95, "The share of entries that have to be as quick as that.", share()
    )
    slo_dead_letters: float = setting(
        0.01, "The share of what ends that may end in quarantine.", share()
    )
    slo_window_seconds: float = setting(
        2_592_000.0,
        "The time over which these are counted: 30 days.",
        seconds(3600, 31_536_000),
    )
    incident_hook: str = setting(
        "",
        "Told when entries run out of attempts, a budget is spent or an operation is escalated: a "
        "web address that takes a POST of JSON, or a command that reads it.",
        matching(r"[^\0\n]*", "https://…, or a command in one line"),
        shown="none",
        secret=True,
    )
    incident_seconds: float = setting(
        900.0,
        "How long the hook is left alone after it was told of a pipeline and reason, or task.",
        seconds(1, 86_400),
    )
    cache_folder: str = setting(
        "~/.cache/headgate",
        "Where copies of what a store in a cloud holds are kept on this machine, and its spools.",
        matching(r"[~/][^\0]*", "an absolute path, or one that begins with ~"),
    )
    cache_bytes: int = setting(
        10 << 30,
        "How much of it. What was used in the last 15 minutes stays even beyond that.",
        whole(1 << 20, 1 << 50),
    )
    log_format: str = setting(
        "auto",
        "How logs are written; `auto` is human on a terminal and JSON elsewhere.",
        one_of("auto", "human", "json"),
    )
    log_level: str = setting(
        "info", "The least that is logged.", one_of("debug", "info", "warning", "error")
    )
    metrics_port: int = setting(
        0, "Where Prometheus metrics are served by `up`; `0` is nowhere.", whole(0, 65_535)
    )
    metrics_host: str = setting(
        "127.0.0.1",
        "The address metrics are served on. Whoever reaches it can read them.",
        matching(r"[\w.:-]+", "a host name or an address"),
    )
    otlp_endpoint: str = setting(
        "",
        "A collector that takes OTLP over HTTP, as in `http://127.0.0.1:4318`: `up` sends metrics "
        "and traces there. Needs the extra `otel`.",
        matching(r"(https?://[^\s?#]+)?", "an http:// or https:// address"),
        shown="none, and nothing is sent",
        secret=True,
    )
    trace_share: float = setting(
        1.0,
        "Which share of the traces that begin here is sent. One that a sender began is sent when "
        "the sender says so.",
        share(),
    )
    energy: bool = setting(
        False,
        "Estimate the energy and carbon of each run from its processor time, and keep it in the "
        "journal.",
        flag(),
    )
    energy_core_watts: float = setting(
        5.0, "What one busy processor (a hardware thread) draws.", number(0, 1000)
    )
    energy_overhead: float = setting(
        1.3,
        "What the building draws for each watt that computes (PUE): cooling, losses.",
        number(1, 10),
    )
    energy_grid_grams: float = setting(
        450.0, "Grams of CO2e that stand behind a kilowatt hour here.", number(0, 5000)
    )
    max_envelope_bytes: int = setting(
        1_048_576, "The largest envelope that is taken in.", whole(1024, 268_435_456)
    )
    egress_allow: str = setting(
        "",
        "What may be reached, though it is not public, when data or a redirect leads there. "
        "Separated by commas, as in `files.example:8080, .internal.example, 10.1.0.0/16`.",
        egress(),
        shown="nothing",
    )
    serve: bool = setting(
        False,
        "Serve the console and the API beside the workers of `up`. Pipelines that take webhooks "
        "or pushes are served in any case.",
        flag(),
    )
    serve_host: str = setting(
        "127.0.0.1",
        "The address the console, the API, webhooks and pushes are served on. Put something that "
        "does TLS in front before it is any other than this machine's own.",
        matching(r"[\w.:-]+", "a host name or an address"),
    )
    serve_port: int = setting(
        8420, "The port they are served on; `0` is any free port.", whole(0, 65_535)
    )
    serve_rate: int = setting(
        500, "Webhooks and pushes per second and key; twice as many at once.", whole(1, 100_000)
    )
    serve_url: str = setting(
        "",
        "Where people and programs reach what is served, as in `https://data.example`, when "
        "something stands in front of it. Links begin with this; with https, cookies are sent over "
        "nothing else.",
        matching(r"(https?://[^\s/?#]+(/[^\s?#]*[^\s/?#])?)?", "an http:// or https:// address"),
        shown="as the caller addressed us",
    )
    serve_origins: str = setting(
        "",
        "Whose pages may read the STAC API in a browser: origins separated by commas, as in "
        "`https://browser.example`, or `*`.",
        matching(
            r"(\*|https?://[^\s/,]+(\s*,\s*https?://[^\s/,]+)*)?", "origins, or * for everyone's"
        ),
        shown="nobody's",
    )
    serve_hosts: str = setting(
        "",
        "Other names that browsers reach the console by, separated by commas, as in "
        "`headgate.internal`. Loopback names, `serve_host` and the host of `serve_url` are known.",
        matching(r"([\w.:\[\]-]+(\s*,\s*[\w.:\[\]-]+)*)?", "host names, separated by commas"),
        shown="none",
    )
    oidc_issuer: str = setting(
        "",
        "The issuer whose tokens are believed, as in `https://login.example/realms/main`. It is "
        "asked for its keys.",
        matching(r"(https?://[^\s?#]+)?", "an http:// or https:// address"),
        shown="nobody",
    )
    oidc_audience: str = setting(
        "",
        "What a token of `oidc_issuer` must be made for.",
        matching(r"[!-~]{0,200}", "what its `aud` says, without blanks"),
        shown="none",
    )
    oidc_role_claim: str = setting(
        "roles",
        "The claim of a token that `oidc_roles` is about: a text or a list of texts. Dots lead "
        "inside, as in `realm_access.roles`.",
        matching(r"[\w:/-]+(\.[\w:/-]+)*", "the name of a claim"),
    )
    oidc_roles: str = setting(
        "",
        "Which role a word of that claim has here, as in `data-team=operator, sre=admin`.",
        matching(r"([^=,\0]+=[^=,\0]+(,[^=,\0]+=[^=,\0]+)*)?", "word=role, separated by commas"),
        shown="none",
    )
    crash_at: str = setting(
        "",
        "Kill a worker when it reaches this point of the path, the n-th time.",
        crash_point(),
        shown="none",
        testing=True,
    )
    origins: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)

    @classmethod
    def load(
        cls,
        overrides: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Settings:
        """Read everything that has a say. Raises `ConfigError`, which names the culprit.

        An override that is None was not given.
        """
        from .load import load

        here = (cwd or Path.cwd()).absolute()
        return load(overrides or {}, os.environ if environ is None else environ, here)

    def origin(self, name: str) -> str:
        """Where the value came from: an option, a variable, a file, or the default."""
        return self.origins.get(name, "default")

    @property
    def embedded(self) -> bool:
        """Is the ledger on a server of our own?"""
        return not self.database_url

    @property
    def crash(self) -> tuple[str, int] | None:
        """Where to die, and at which visit."""
        return split_crash_point(self.crash_at) if self.crash_at else None

    def rows(self) -> Iterator[Row]:
        """What `headgate config show` shows. Settings for tests only when they are set."""
        for name, about in DECLARED.items():
            value = cast("object", getattr(self, name))
            if not about.testing or value:
                yield Row(name, shown(name, value), self.origin(name), variable(name))

    def tuning(self) -> Tuning:
        """What the loops of the runtime are told."""
        from headgate.runtime.tuning import Tuning

        return Tuning(**{one.name: getattr(self, one.name) for one in fields(Tuning)})

    def assumed(self) -> Assumed | None:
        """What energy is estimated by; None when nobody asks for it."""
        from headgate.model.energy import Assumed

        if not self.energy:
            return None
        return Assumed(self.energy_core_watts, self.energy_overhead, self.energy_grid_grams)

    def ledger(self) -> Ledger:
        """Where the ledger is, for `runtime.ledger_home`."""
        from headgate.runtime.ledger_home import Ledger

        url = None if self.embedded else self.database_url
        return Ledger(url, self.home, self.schema, self.pooler, self.allow_unsafe_database)


def _declared(one: Field[object]) -> Declared | None:
    return cast("Declared | None", one.metadata.get("declared"))


DECLARED: dict[str, Declared] = {
    one.name: about for one in fields(Settings) if (about := _declared(one)) is not None
}


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return "HEADGATE_" + name.upper()


def shown(name: str, value: object) -> str | float | bool:
    """The value as it may be shown to anyone who can read a terminal."""
    if isinstance(value, int | float):
        return value
    if name in DECLARED and DECLARED[name].secret:
        from headgate.model.mask import mask_url

        return mask_url(str(value)) or (EMBEDDED if name == "database_url" else "")
    return str(value)
