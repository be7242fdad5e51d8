"""For tests: conformance suites that every store and source passes, and proofs of pipelines."""

from .prover import Prover, Unproved

__all__ = ["Prover", "Unproved"]
