"""Orders by webhook: each signed call becomes one object, and its rows are in Postgres once."""

from typing import TypedDict

import headgate as hg

orders = hg.Pipeline(
    "orders",
    sources=[
        hg.Webhook(
            secrets={"2026-01": hg.env("ORDERS_SECRET")},
            uri="orders/{order.id}",
            preview="waived",  # a shop cannot look first
            reuse="replay",  # and it sends again when it hears nothing
        )
    ],
    store="lake/",
    version="1",
)


class Order(TypedDict):
    id: int
    total: int


@orders.validate
def has_a_total(obj: hg.Object) -> None:
    if obj.json()["order"]["total"] < 0:
        raise hg.Permanent("a negative total")


@orders.rows("shop_order", key="id", schema=Order)
def rows(obj: hg.Object):
    yield obj.json()["order"]
