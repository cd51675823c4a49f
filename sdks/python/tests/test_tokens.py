"""Access tokens: cached, fetched once, renewed; and never shown."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import logging
import pickle
import traceback
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from support import TOKEN_RESPONSE, Browser, RawRequest, Stub, response, wait_until

from ringtrue import ApiError, AsyncRingtrue, AuthenticationError, ConfigurationError, Ringtrue

if TYPE_CHECKING:
    from support import Clients, Loop, Service

SECRET = "example-secret-1234"
CREDENTIAL: dict[str, Any] = {"client_id": "example-client", "client_secret": SECRET}
VERIFICATION = {"verification_id": "01a1", "status": "COMPLETED", "steps": []}


class Gateway(Stub):
    """Passes requests to the service, and records them."""

    def __init__(self, service: Service) -> None:
        def forward(request: RawRequest) -> bytes:
            connection = http.client.HTTPConnection("127.0.0.1", service.port)
            headers = {name: value for name, value in request.headers if name.lower() != "content-length"}
            connection.request(request.method, request.target, request.body or None, headers)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            kept = {name: value for name, value in answer.getheaders() if name.lower().startswith(("x-", "retry"))}
            return response(answer.status, json.loads(body) if body else None, **kept)

        super().__init__(forward)

    def count(self, target: str) -> int:
        return sum(request.target == target for request in self.requests)


def test_fifty_threads_fetch_one_token(service: Service) -> None:
    with Gateway(service) as gateway, Ringtrue(**service.credential(url=gateway.url)) as client:
        with ThreadPoolExecutor(50) as pool:
            found = list(pool.map(lambda _: client.verifications.list(size=1).page(), range(50)))
        assert len(found) == 50
        assert gateway.count("/oauth2/token") == 1


def test_fifty_tasks_fetch_one_token(service: Service, loop: Loop) -> None:
    async def run(url: str) -> int:
        async with AsyncRingtrue(**service.credential(url=url)) as client:
            pages = await asyncio.gather(*(client.verifications.list(size=1).page() for _ in range(50)))
            # Another scope has another token.
            await client.sim_swap.list(size=1).page()
            return len(pages)

    with Gateway(service) as gateway:
        assert loop.run(run(gateway.url)) == 50
        assert gateway.count("/oauth2/token") == 2


def test_failed_token_request_is_shared(loop: Loop) -> None:
    with Stub(lambda _: response(401, {"error_code": "unauthorized", "detail": "wrong"})) as stub:

        async def run() -> list[Any]:
            async with AsyncRingtrue(stub.url, **CREDENTIAL) as client:
                calls = (client.verifications.get("01a1") for _ in range(20))
                return [*await asyncio.gather(*calls, return_exceptions=True)]

        errors = loop.run(run())
    assert all(isinstance(error, AuthenticationError) for error in errors)
    assert len(stub.requests) == 1


def revoke(service: Service, token: str) -> None:
    pair = f"{service.project['client_id']}:{service.project['client_secret']}".encode()
    headers = {"authorization": "Basic " + base64.b64encode(pair).decode()}
    status, _, _ = Browser().open(service.url + "/oauth2/revoke", form={"token": token}, headers=headers)
    assert status == 200


def test_revoked_token_is_renewed_once(clients: Clients, service: Service) -> None:
    with Gateway(service) as gateway:
        client = clients(**service.credential(url=gateway.url))
        client.verifications.list(size=1).page()
        token = gateway.requests[-1].header("authorization").split(" ")[1]
        revoke(service, token)
        client.verifications.list(size=1).page()
        assert gateway.count("/oauth2/token") == 2
        # Even for a call that is not retried otherwise: a rejected token did nothing.
        client.reverse_sms.list(size=1).page()
        revoke(service, gateway.requests[-1].header("authorization").split(" ")[1])
        check = client.reverse_sms.create(phone_number="+990123456700")
        client.sandbox.send_sms(from_="+990123456700", to=check["receiver_phone_number"], body="x")
        assert gateway.count("/oauth2/token") == 4


def test_second_401_is_the_error(clients: Clients) -> None:
    def respond(request: RawRequest) -> bytes:
        problem = {"error_code": "unauthorized", "title": "Unauthorized", "detail": "the token is not valid"}
        return TOKEN_RESPONSE if request.target == "/oauth2/token" else response(401, problem, x_request_id="r-1")

    with Stub(respond) as stub:
        client = clients(url=stub.url, **CREDENTIAL)
        with pytest.raises(AuthenticationError) as raised:
            client.verifications.get("01a1")
    targets = [request.target for request in stub.requests]
    assert targets == ["/oauth2/token", "/v1/verifications/01a1"] * 2
    assert raised.value.request_id == "r-1"


def test_token_is_renewed_before_it_ends(clients: Clients) -> None:
    lifetimes = iter([1, 3600])
    granted: list[int] = []

    def respond(request: RawRequest) -> bytes:
        if request.target != "/oauth2/token":
            return response(200, VERIFICATION)
        granted.append(next(lifetimes))
        return response(200, {"access_token": f"token-{len(granted)}", "expires_in": granted[-1]})

    with Stub(respond) as stub:
        client = clients(url=stub.url, **CREDENTIAL)
        client.verifications.get("01a1")

        def uses_second_token() -> bool:
            client.verifications.get("01a1")
            return stub.requests[-1].header("authorization") == "Bearer token-2"

        wait_until(uses_second_token, "the token is renewed")
    assert granted == [1, 3600]


def test_token_request_is_that_of_oauth(clients: Clients) -> None:
    def respond(request: RawRequest) -> bytes:
        return TOKEN_RESPONSE if request.target == "/oauth2/token" else response(200, VERIFICATION)

    with Stub(respond) as stub:
        clients(url=stub.url + "/", client_id="a:b", client_secret="c d+ü").verifications.get("01a1")
    token_request = stub.requests[0]
    scheme, pair = token_request.header("authorization").split(" ")
    assert scheme == "Basic"
    assert base64.b64decode(pair) == b"a%3Ab:c%20d%2B%C3%BC"
    form = {"grant_type": ["client_credentials"], "scope": ["verification"]}
    assert urllib.parse.parse_qs(token_request.body.decode()) == form


def test_secrets_are_not_shown(clients: Clients, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    phone_number = "+990" + "123456700"  # not in the source lines of the traceback

    def respond(request: RawRequest) -> bytes:
        return TOKEN_RESPONSE if request.target == "/oauth2/token" else response(500, {"detail": "failed"})

    with Stub(respond) as stub:
        client = clients(url=stub.url, **CREDENTIAL)
        with pytest.raises(ApiError) as raised:
            client.verifications.create(phone_number=phone_number)
    text = "".join(traceback.format_exception(type(raised.value), raised.value, raised.tb))
    shown = [repr(client), str(client), str(raised.value), repr(raised.value), text, caplog.text]
    shown += [repr(vars(client).get("_session", "")), repr(raised.value.__dict__)]
    for hidden in (SECRET, "example-token", phone_number[1:]):
        assert not [part for part in shown if hidden in part]


def test_wrong_secret(clients: Clients, service: Service) -> None:
    with pytest.raises(AuthenticationError) as raised:
        clients(**service.credential(client_secret="wrong")).verifications.get("01a1")
    assert raised.value.status == 401
    assert raised.value.call == "POST /oauth2/token"
    restored = pickle.loads(pickle.dumps(raised.value))
    assert (type(restored), str(restored), restored.status) == (AuthenticationError, str(raised.value), 401)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RINGTRUE_URL", "RINGTRUE_CLIENT_ID", "RINGTRUE_CLIENT_SECRET"):
        monkeypatch.delenv(variable, raising=False)
    settings: dict[str, Any] = {"url": "https://eu.api.example.com", **CREDENTIAL}
    for name in settings:
        missing = {key: value for key, value in settings.items() if key != name}
        with pytest.raises(ConfigurationError, match=f"RINGTRUE_{name.upper()}"):
            Ringtrue(**missing)
    for name, value in settings.items():
        monkeypatch.setenv(f"RINGTRUE_{name.upper()}", value)
    assert repr(Ringtrue()) == "Ringtrue(url='https://eu.api.example.com', client_id='example-client')"
    assert "https://us" in repr(AsyncRingtrue("https://us.api.example.com"))


@pytest.mark.parametrize("url", ["ftp://host", "host", "https://", "https://user:pw@host", "https://host?x=1"])
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Ringtrue(url, **CREDENTIAL)
    assert "pw" not in str(raised.value)


def test_invalid_limits_are_rejected() -> None:
    invalid: list[dict[str, Any]] = [{"timeout": 0}, {"max_retries": -1}, {"total_timeout": -1}]
    for limits in invalid:
        with pytest.raises(ConfigurationError):
            Ringtrue("https://host", **CREDENTIAL, **limits)
