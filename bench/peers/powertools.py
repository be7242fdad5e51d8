"""Powertools' idempotency on Redis, for `bench.operation`: first calls and repeats.

The function does nothing: its effect, if it had one, would be a second commit somewhere else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

REPEATS_ALONE = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--callers", type=int, required=True)
    asked = parser.parse_args()
    os.environ["AWS_LAMBDA_FUNCTION_NAME"] = "bench"
    warnings.simplefilter("ignore")  # it is not in a Lambda function, and says so for each call
    import redis
    from aws_lambda_powertools.utilities.idempotency import idempotent_function
    from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer

    client = redis.Redis(unix_socket_path=asked.socket, decode_responses=True)

    @idempotent_function(
        data_keyword_argument="order", persistence_store=CachePersistenceLayer(client=client)
    )
    def charge(order: dict[str, str]) -> dict[str, str]:
        return {"ok": order["id"]}

    begin = time.time_ns()

    def call(n: int) -> None:
        charge(order={"id": f"{begin}-{n}"})

    with ThreadPoolExecutor(asked.callers) as pool:
        list(pool.map(call, range(-200, 0)))
        seconds: list[float] = []
        for _ in ("first calls", "repeats"):
            began = time.perf_counter()
            list(pool.map(call, range(asked.n)))
            seconds.append(time.perf_counter() - began)
    taken: list[float] = []
    for n in range(min(REPEATS_ALONE, asked.n)):
        began = time.perf_counter()
        call(n)
        taken.append(time.perf_counter() - began)
    first, repeats = seconds
    said = {"first": asked.n / first, "repeats": asked.n / repeats, "p50": statistics.median(taken)}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
