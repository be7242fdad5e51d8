"""Telemetry: what becomes of signals and log lines. `log`, `mask`, `metrics`, `relay`.

Importing it changes nothing: logging is configured by whoever owns the process, and says so by
calling `log.configure`. Nothing is imported from here, because structlog and prometheus_client are
not cheap and few processes need both.
"""
