"""Events of a stream become rows of the table `trade`, also those sent while we were away."""

import os
from decimal import Decimal
from typing import Any, TypedDict

import headgate as hg

# In production this is somebody's stream, as in "https://feed.example/trades".
FEED = os.environ.get("FEED", "http://127.0.0.1:8422/trades")

feed = hg.ServerSentEvents(FEED, content_type="application/json")
trades = hg.Pipeline("trades", sources=[feed], store="lake/", version="1")


class Trade(TypedDict):
    number: int
    symbol: str
    price: Decimal


@trades.rows("trade", key="number", schema=Trade)
def trade(obj: hg.Object) -> list[dict[str, Any]]:
    return [obj.json()]
