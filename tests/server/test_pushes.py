"""Pushes of the clouds: each provider proves itself in its own way, and is admitted once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server import keys
from tests.server.conftest import House
from tests.server.doors import signed


def body(document: Any) -> bytes:
    return json.dumps(document).encode()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "content-type": "application/json"}


CLOUD = {"content-type": "application/cloudevents+json"}
AZURE = f"/events/azure?key={keys.AZURE.replace(' ', '%20')}"


def test_pubsub_with_its_token_is_admitted_once(house: House) -> None:
    """Google's token for our address and its service account; told twice, it is one entry."""
    before = house.holds()[0]
    for new in (1, 0):
        said = house.ask("POST", "/events/gcs", bearer(keys.google_token()), body(keys.PUBSUB))
        assert said.status == 200
        (taken,) = said.json["taken"]
        assert (taken["pipeline"], taken["records"], taken["admitted"]) == ("gcs", 1, new)
    assert house.holds()[0] == before + 1


def test_keys_are_fetched_once_and_again_when_one_is_missing(house: House) -> None:
    """A push costs no request to the issuer."""
    asked = house.web.asked.count(keys.GOOGLE_KEYS)
    for _ in range(3):
        house.ask("POST", "/events/gcs", bearer(keys.google_token()), body(keys.PUBSUB))
    assert house.web.asked.count(keys.GOOGLE_KEYS) <= max(1, asked)


def test_event_grid_with_its_key_is_admitted(house: House) -> None:
    """The key stands in the address that Event Grid was given."""
    said = house.ask("POST", AZURE, {}, body(keys.EVENT_GRID))
    assert (said.status, said.json["taken"][0]["admitted"]) == (200, 1)


def test_event_grid_with_a_token_of_entra_is_admitted(house: House) -> None:
    """A token made for us, by the tenant, to Event Grid's own application."""
    said = house.ask("POST", "/events/azure", bearer(keys.entra_token()), body(keys.EVENT_GRID))
    assert (said.status, said.json["taken"][0]["pipeline"]) == (200, "entra")


def test_event_grids_handshake_is_answered_to_who_has_the_key(house: House) -> None:
    """Without the key, the code is not given back."""
    said = house.ask("POST", AZURE, {}, body(keys.VALIDATION))
    code = keys.VALIDATION[0]["data"]["validationCode"]
    assert (said.status, said.json) == (200, {"validationResponse": code})
    refused = house.ask("POST", "/events/azure", {}, body(keys.VALIDATION))
    assert refused.status == 401
    assert code.encode() not in refused.body


def test_the_handshake_of_cloudevents(house: House) -> None:
    """An origin that was named may send; any other may not."""
    origin = {"webhook-request-origin": "eventgrid.azure.net"}
    said = house.ask("OPTIONS", AZURE, origin)
    assert (said.status, said.headers["webhook-allowed-origin"]) == (200, "eventgrid.azure.net")
    assert house.ask("OPTIONS", "/events/azure", origin).status == 401
    events = {"webhook-request-origin": "events.example"}
    assert house.ask("OPTIONS", "/events/cloudevents", events).status == 200
    assert house.ask("OPTIONS", "/events/cloudevents", origin).status == 401


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_message_of_our_topic_is_admitted(house: House, version: str) -> None:
    """Both of SNS's signatures are understood."""
    event = json.dumps(keys.S3_EVENT).replace("R1", f"R{version}").replace("E5", f"E{version}")
    message = keys.notification(SignatureVersion=version, Message=event, Subject="Amazon S3")
    said = house.ask("POST", "/events/sns", {}, body(message))
    assert (said.status, said.json["taken"][0]["admitted"]) == (200, 1)


def test_a_subscription_is_confirmed_for_our_topic_at_its_own_host(house: House) -> None:
    """The address in the message is not visited: ours is made of the topic and the token."""
    made = (
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription"
        "&TopicArn=arn%3Aaws%3Asns%3Aus-east-1%3A123456789012%3Achanges&Token=2336"
    )
    asking = keys.question(SubscribeURL="https://evil.test/?Token=2336")
    assert house.ask("POST", "/events/sns", {}, body(asking)).status == 503, "it does not answer"
    house.web.pages[made] = b"<ok/>"
    assert house.ask("POST", "/events/sns", {}, body(asking)).status == 200
    assert made in house.web.asked
    assert not [url for url in house.web.asked if "evil" in url]


def test_an_end_of_a_subscription_is_not_undone(house: House) -> None:
    """The address in it would subscribe again; it is acknowledged and left alone."""
    asked = list(house.web.asked)
    ending = keys.question(Type="UnsubscribeConfirmation")
    assert house.ask("POST", "/events/sns", {}, body(ending)).status == 200
    assert house.web.asked == asked


def test_signed_cloudevents_are_admitted_alone_and_in_batches(house: House) -> None:
    """The data of each is an object of its own."""
    batch = [{**keys.CLOUD_EVENT, "id": f"b{n}"} for n in range(3)]
    for number, document in enumerate((keys.CLOUD_EVENT, batch)):
        raw = body(document)
        kind = "application/cloudevents-batch+json" if number else CLOUD["content-type"]
        headers = signed(keys.EVENTS, raw, id=f"ce_{number}") | {"content-type": kind}
        said = house.ask("POST", "/events/cloudevents", headers, raw)
        assert (said.status, said.json["taken"][0]["admitted"]) == (200, 3 if number else 1)


def test_a_record_that_cannot_be_read_costs_no_neighbour(house: House) -> None:
    """It is set aside, the others are admitted, and the push is acknowledged."""
    good = {**keys.CLOUD_EVENT, "id": "good"}
    raw = body([good, {"specversion": "1.0", "id": "bad"}])
    headers = signed(keys.EVENTS, raw, id="ce_mixed") | CLOUD
    said = house.ask("POST", "/events/cloudevents", headers, raw)
    assert said.status == 200
    rows = house.do(house.db.fetch("SELECT reason FROM headgate.quarantine"))
    assert [row["reason"] for row in rows] == ["missing_field"]


def test_while_the_issuers_keys_cannot_be_had_nothing_is_acknowledged(house: House) -> None:
    """503: the provider sends it again; a push is never believed for lack of a key."""
    page = house.web.pages.pop(keys.NO_CERT)
    lost = keys.notification(SigningCertURL=keys.NO_CERT)
    said = house.ask("POST", "/events/sns", {}, body(lost))
    house.web.pages[keys.NO_CERT] = page
    assert (said.status, said.reason) == (503, "keys_unavailable")


def test_a_provider_nobody_declared_is_not_there(house: House) -> None:
    """404 for what no pipeline asked for, 400 for what no provider is called."""
    assert house.ask("POST", "/events/nobody", {}, b"{}").reason == "bad_request"
