"""Returns of the browser, against the real service."""

from __future__ import annotations

import re
import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest
from django.http import QueryDict
from starlette.datastructures import QueryParams
from support import NAVIGATION, TOKEN_RESPONSE, Browser, RawRequest, Stub, response
from werkzeug.datastructures import MultiDict

from ringtrue import ApiError, ForeignReturnError, NotFoundError, SandboxRefusedError
from ringtrue._redeem import parse_query

if TYPE_CHECKING:
    from support import Clients, Service

    from ringtrue import Ringtrue

RETURN_URL = "http://127.0.0.1:9/verified"


def start(client: Ringtrue, phone_number: str, **more: Any) -> Any:
    return client.verifications.create(phone_number=phone_number, redirect_url=RETURN_URL, **more)


def test_silent_success_and_reload(client: Ringtrue) -> None:
    created = start(client, "+990123456700")
    back = Browser().check_silently(created["url"], RETURN_URL)
    outcome = client.verifications.redeem(created["verification_id"], back)
    assert (outcome.verified, outcome.open, outcome.url, outcome.reason) == (True, False, None, None)
    assert outcome.verification["method"] == "secure_sna"
    # A reload, with the query as frameworks have it, and with what `create` returned.
    query = urllib.parse.urlsplit(back).query
    parameters = dict(urllib.parse.parse_qsl(query))
    for given in (query, "?" + query, query.encode(), parameters, list(parameters.items()), QueryParams(query)):
        assert client.verifications.redeem(created, given).verified
    assert client.verifications.redeem(created, MultiDict(parameters)).verified
    assert client.verifications.redeem(created, QueryDict(query)).verified


def test_mismatch(client: Ringtrue) -> None:
    created = start(client, "+990123456701")
    back = Browser().check_silently(created["url"], RETURN_URL)
    outcome = client.verifications.redeem(created["verification_id"], back)
    assert (outcome.verified, outcome.open, outcome.reason) == (False, False, "no_match")
    assert created["url"] not in repr(outcome)


def test_wrong_code_does_not_spoil_the_right_one(client: Ringtrue) -> None:
    created = start(client, "+990123456700")
    back = Browser().check_silently(created["url"], RETURN_URL)
    for forged in ("forged", "x" * 1000, "ü", "%00"):
        query = re.sub(r"code=[^&]+", f"code={forged}", back)
        outcome = client.verifications.redeem(created, query)
        assert (outcome.verified, outcome.reason) == (False, "code_invalid")
    assert client.verifications.redeem(created, back).verified
    # The right code is known to have been redeemed, and another one is wrong nevertheless.
    outcome = client.verifications.redeem(created, re.sub(r"code=[^&]+", "code=forged", back))
    assert (outcome.verified, outcome.open, outcome.reason) == (False, False, "code_invalid")
    # Without the code, a match proves nothing either.
    outcome = client.verifications.redeem(created, {"verification_id": created["verification_id"]})
    assert (outcome.verified, outcome.open, outcome.reason) == (False, False, "code_missing")
    assert outcome.verification["match"] is True


def test_return_of_another_session(clients: Clients) -> None:
    own, other = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b", "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0c"
    with Stub(lambda _: None) as stub:
        client = clients(url=stub.url, client_id="c", client_secret="s")
        sessions: list[Any] = [own, {"verification_id": own}, None, "", {}, {"verification_id": None}]
        query: Any
        for session in sessions:
            for query in (
                f"verification_id={other}&code=x",
                "code=x",
                "",
                {},
                f"verification_id={other}&error=no_match",
            ):
                with pytest.raises(ForeignReturnError):
                    client.verifications.redeem(session, query)
        ambiguous = f"verification_id={own}&verification_id={other}&code=x"
        for query in (ambiguous, QueryParams(ambiguous), QueryDict(ambiguous)):
            with pytest.raises(ForeignReturnError):
                client.verifications.redeem(own, query)
        with pytest.raises(ForeignReturnError):
            client.verifications.redeem("", f"verification_id=&code={own}")
        assert stub.requests == []


def test_sandbox_is_refused_by_default(clients: Clients, client: Ringtrue, service: Service) -> None:
    created = start(client, "+990123456700")
    back = Browser().check_silently(created["url"], RETURN_URL)
    strict = clients(**service.credential(allow_sandbox=False))
    with pytest.raises(SandboxRefusedError, match="allow_sandbox"):
        strict.verifications.redeem(created, back)
    with pytest.raises(SandboxRefusedError):
        strict.verifications.redeem(created, {"verification_id": created["verification_id"]})
    # So are all other results.
    with pytest.raises(SandboxRefusedError):
        start(strict, "+990123456700")
    with pytest.raises(SandboxRefusedError):
        strict.reverse_sms.list().page()
    assert client.verifications.redeem(created, back).verified


def test_end_without_a_code_is_read_from_the_service(client: Ringtrue) -> None:
    created = start(client, "+990123456700")
    # The browser's word proves nothing.
    query = {"verification_id": created["verification_id"], "error": "no_match"}
    outcome = client.verifications.redeem(created, query)
    assert (outcome.verified, outcome.open, outcome.url, outcome.reason) == (False, True, created["url"], None)
    client.verifications.cancel(created["verification_id"])
    outcome = client.verifications.redeem(created, query)
    assert (outcome.verified, outcome.open, outcome.reason) == (False, False, "cancelled")
    # A code for a verification that has ended.
    outcome = client.verifications.redeem(created, {**query, "code": "x" * 43})
    assert not outcome.verified


def test_given_up(client: Ringtrue) -> None:
    created = start(client, "+990123456796")
    browser = Browser()
    browser.open(created["url"] + "/end", form={"reason": "give_up"}, headers=NAVIGATION)
    back = browser.wait_for_return(created["url"], RETURN_URL)
    assert "error=given_up" in back
    outcome = client.verifications.redeem(created, back)
    assert (outcome.verified, outcome.open, outcome.reason) == (False, False, "given_up")


def test_reverse_sms_returns_with_a_code(client: Ringtrue) -> None:
    created = start(client, "+990123456796")
    step = created["next_step"]
    client.sandbox.send_sms(from_="+990123456796", to=step["receiver_phone_number"], body=step["expected_sms_body"])
    back = Browser().wait_for_return(created["url"], RETURN_URL)
    outcome = client.verifications.redeem(created, back)
    assert outcome.verified
    assert outcome.verification["method"] == "reverse_sms"


def test_open_verification_goes_on(client: Ringtrue, manager: Ringtrue, service: Service) -> None:
    projects = manager.management.projects
    ids = (service.workspace_id, service.project_id)
    projects.update(*ids, configuration={"verification": {"fall_back_on_mismatch": True}})
    try:
        created = start(client, "+990123456701")
        back = Browser().check_silently(created["url"], RETURN_URL)
        outcome = client.verifications.redeem(created, back)
    finally:
        projects.update(*ids, configuration={"verification": {"fall_back_on_mismatch": None}})
    assert (outcome.verified, outcome.open, outcome.url) == (False, True, created["url"])


@pytest.mark.parametrize(("digits", "no_sim_change"), [("00", True), ("02", True)])
def test_answer_about_the_sim_is_awaited(client: Ringtrue, digits: str, *, no_sim_change: bool) -> None:
    created = start(client, f"+9901234567{digits}", sim_swap_period=1440)
    back = Browser().check_silently(created["url"], RETURN_URL)
    outcome = client.verifications.redeem(created, back)
    assert outcome.verified
    assert outcome.verification["no_sim_change"] is no_sim_change


def test_wait_for_the_sim_polls_the_verification(clients: Clients) -> None:
    step = {"method": "secure_sna", "status": "COMPLETED", "match": True}
    asking = {"verification_id": "01a1", "status": "PENDING", "url": "https://host/v/x", "steps": [step]}
    done = {"verification_id": "01a1", "status": "COMPLETED", "match": True, "steps": [step]}
    reads: list[RawRequest] = []

    def respond(request: RawRequest) -> bytes:
        if request.target == "/oauth2/token":
            return TOKEN_RESPONSE
        if request.method == "POST":
            return response(200, asking, x_project_mode="live")
        reads.append(request)
        return response(200, asking if len(reads) < 2 else done, x_project_mode="live")

    with Stub(respond) as stub:
        client = clients(url=stub.url, client_id="c", client_secret="s")
        assert client.verifications.redeem("01a1", "verification_id=01a1&code=x").verified
    assert len(reads) == 2


@pytest.mark.parametrize(("query", "reason"), [("", "code_missing"), ("&code=x", "code_invalid")])
def test_answer_about_the_sim_is_awaited_without_a_redeemed_code(clients: Clients, query: str, reason: str) -> None:
    step = {"method": "secure_sna", "status": "COMPLETED", "match": True}
    asking = {"verification_id": "01a1", "status": "PENDING", "url": "https://host/v/x", "steps": [step]}
    done = {"verification_id": "01a1", "status": "COMPLETED", "match": True, "steps": [step]}
    reads: list[RawRequest] = []

    def respond(request: RawRequest) -> bytes:
        if request.target == "/oauth2/token":
            return TOKEN_RESPONSE
        if request.method == "POST":
            return response(409, {"status": 409, "error_code": "check_not_ready"}, x_project_mode="live")
        reads.append(request)
        return response(200, asking if len(reads) < 3 else done, x_project_mode="live")

    with Stub(respond) as stub:
        client = clients(url=stub.url, client_id="c", client_secret="s")
        outcome = client.verifications.redeem("01a1", "verification_id=01a1" + query)
    assert (outcome.verified, outcome.open, outcome.reason) == (False, False, reason)
    assert len(reads) == 3


def test_errors_of_the_service_are_raised(client: Ringtrue) -> None:
    unknown = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b"
    with pytest.raises(NotFoundError):
        client.verifications.redeem(unknown, {"verification_id": unknown, "code": "x"})
    with pytest.raises(ApiError):
        client.verifications.redeem("no id", {"verification_id": "no id", "code": "x"})


def test_expired(client: Ringtrue, clients: Clients) -> None:
    expired = {"verification_id": "01a1", "status": "EXPIRED", "error_code": "check_expired", "steps": []}

    def respond(request: RawRequest) -> bytes:
        if request.target == "/oauth2/token":
            return TOKEN_RESPONSE
        if request.method == "POST":
            return response(410, {"error_code": "check_expired"})
        return response(200, expired, x_project_mode="live")

    with Stub(respond) as stub:
        strict = clients(url=stub.url, client_id="c", client_secret="s")
        for query in ("verification_id=01a1&error=expired", "verification_id=01a1&code=x"):
            outcome = strict.verifications.redeem("01a1", query)
            assert (outcome.verified, outcome.open, outcome.reason) == (False, False, "expired")


def test_queries() -> None:
    assert parse_query("https://host/verified?a=1&b=%C3%BC#f") == {"a": "1", "b": "ü"}
    assert parse_query("/verified") == {}
    assert parse_query({"a": ["1"], "b": ["1", "2"], "c": ""}) == {"a": "1", "c": ""}
    assert parse_query("a=1&a=1") == {}
