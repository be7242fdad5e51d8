"""For tests: conformance suites that every store and source passes, ours and yours."""
