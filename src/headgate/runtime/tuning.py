"""How the loops are set. The values come from `settings`; the loops read no environment."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.slo import Targets
from headgate.stores import Local


@dataclass(frozen=True, slots=True)
class Tuning:
    """Times, sizes and limits of the runtime. Defaults are those of the documented settings."""

    lease_seconds: float = 900.0
    heartbeat_seconds: float = 30.0
    workers: int = 1
    concurrency: int = 4
    batch_max: int = 1000
    poll_seconds: float = 0.1
    deadline_seconds: float = 3600.0
    apply_seconds: float = 60.0
    drain_seconds: float = 30.0
    sweep_seconds: float = 5.0
    anchor_seconds: float = 60.0
    layout: str = ""
    grace_seconds: float = 86400.0
    retention_days: float = 90.0
    max_wait_seconds: float = 60.0
    max_envelope_bytes: int = 1_048_576
    serve: bool = False
    serve_host: str = "127.0.0.1"
    serve_port: int = 8420
    serve_rate: int = 500
    serve_url: str = ""
    serve_origins: str = ""
    serve_hosts: str = ""
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_role_claim: str = "roles"
    oidc_roles: str = ""
    backlog_max: int = 100_000
    error_budget: float = 0.05
    error_budget_seconds: float = 600.0
    slo_duplicates: float = 0.01
    slo_latency_seconds: float = 300.0
    slo_latency_share: float = 0.95
    slo_dead_letters: float = 0.01
    slo_window_seconds: float = 2_592_000.0
    incident_hook: str = ""
    incident_seconds: float = 900.0
    env: str = ""
    otlp_endpoint: str = ""
    trace_share: float = 1.0
    energy: bool = False
    energy_core_watts: float = 5.0
    energy_overhead: float = 1.3
    energy_grid_grams: float = 450.0
    egress_allow: str = ""
    cache_folder: str = "~/.cache/headgate"
    cache_bytes: int = 10 << 30

    @property
    def local(self) -> Local:
        """Where stores in a cloud keep copies on this machine."""
        return Local(self.cache_folder, self.cache_bytes)

    @property
    def targets(self) -> Targets:
        """What is promised about the work."""
        return Targets(
            self.slo_duplicates,
            self.slo_latency_seconds,
            self.slo_latency_share,
            self.slo_dead_letters,
            self.slo_window_seconds,
        )
