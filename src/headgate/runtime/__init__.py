"""Loops: watch, work, sweep, and `up`, which supervises all of them. Each can run alone."""
