"""The common job through other systems on Postgres, each set up as fast as we could make it.

They run in an environment of their own (`.venv-bench`), where Headgate is not installed: nothing in
here may import it. `python -m bench.peers NAME --url URL --n N` prints what came out as JSON.
"""
