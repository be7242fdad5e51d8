"""`python -m bench.peers NAME --url URL --n N`: run one peer, print seconds, lost and double."""

from __future__ import annotations

import argparse
import importlib
import json

from . import contest

NAMES = ("pgqueuer", "procrastinate", "dbos")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--url", required=True, help="an empty database of a throw-away server")
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    peer: contest.Peer = importlib.import_module(f"bench.peers.with_{asked.name}").PEER
    if asked.work:
        peer.work(asked.url)
    else:
        print(json.dumps(contest.run(peer, asked.name, asked.url, asked.n)))


if __name__ == "__main__":
    main()
