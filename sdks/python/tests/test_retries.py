"""Retries, time-outs and broken connections."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support import DEADLINE_SECONDS, TOKEN_RESPONSE, UNLIMITED, RawRequest, Service, Stub, read_request, response

from ringtrue import (
    ApiError,
    AsyncRingtrue,
    RateLimitError,
    Request,
    Response,
    Ringtrue,
    TransportError,
    TransportTimeoutError,
    field,
)
from ringtrue._errors import parse_retry_after
from ringtrue._flow import Locked, Send, Sleep
from ringtrue._session import Call, Session, parse_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support import Clients, Loop
    from typing_extensions import Self

CREDENTIAL: dict[str, Any] = {"client_id": "example-client", "client_secret": "example-secret"}
CREATED = {"check_id": "01a1", "status": "ACCEPTED"}
READ = Call("GET", "/v1/verifications/{verification_id}", "verification", {"verification_id": "01a1"})
CREATE = Call("POST", "/v1/verifications", "verification", body={}, idempotency_key="key-1")
PATCH = Call("PATCH", "/v1/management/workspaces/1", "management", body={}, is_repeatable=False)


def problem(status: int, error_code: str = "service_unavailable", **headers: str) -> Response:
    return Response(
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        json.dumps({"error_code": error_code}).encode(),
    )


OK = Response(200, {}, b"{}")


def drive(
    call: Call, answers: Sequence[Response | Exception], **settings: Any
) -> tuple[Any, list[float], list[Request]]:
    """Runs a call without a network. Returns the result or the error, the waits, and the requests."""
    limits = {"timeout": None, "max_retries": 2, "allow_sandbox": False, "total_timeout": None, **settings}
    now = 0.0
    session = Session(
        parse_settings("https://host", "id", "secret", **limits), monotonic=lambda: now, jitter=lambda: 0.5
    )
    waits: list[float] = []
    requests: list[Request] = []
    remaining = list(answers)

    def run(flow: Any) -> Any:
        nonlocal now
        result: Any = None
        try:
            while True:
                effect = flow.send(result)
                result = None
                while isinstance(effect, Send):
                    if effect.request.url.endswith("/oauth2/token"):
                        answer: Response | Exception = Response(200, {}, b'{"access_token":"t","expires_in":3600}')
                    else:
                        requests.append(effect.request)
                        answer = remaining.pop(0)
                    effect = flow.throw(answer) if isinstance(answer, Exception) else flow.send(answer)
                if isinstance(effect, Sleep):
                    waits.append(effect.seconds)
                    now += effect.seconds
                elif isinstance(effect, Locked):
                    result = run(effect.flow)
        except StopIteration as end:
            return end.value

    try:
        outcome = run(session.respond(call))
    except (ApiError, TransportError) as error:
        outcome = error
    assert not remaining
    return outcome, waits, requests


@pytest.mark.parametrize(
    "failure", [problem(502), problem(503), problem(504), TransportError("broken"), TransportTimeoutError("late")]
)
@pytest.mark.parametrize("call", [READ, CREATE])
def test_backoff_doubles_with_full_jitter(call: Call, failure: Response | Exception) -> None:
    outcome, waits, requests = drive(call, [failure, failure, OK])
    assert outcome is OK
    assert waits == [0.25, 0.5]
    assert len({request.headers.get("idempotency-key") for request in requests}) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(status: int) -> None:
    outcome, waits, _ = drive(READ, [problem(status, retry_after="7"), OK])
    assert outcome is OK
    assert waits == [7.25]


def test_long_retry_after_is_the_callers_decision() -> None:
    outcome, waits, _ = drive(READ, [problem(429, retry_after="31")])
    assert isinstance(outcome, RateLimitError)
    assert outcome.retry_after == 31
    assert waits == []


def test_create_in_progress_is_retried() -> None:
    outcome, waits, _ = drive(CREATE, [problem(409, "idempotency_in_progress"), OK])
    assert outcome is OK
    assert len(waits) == 1


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422, 500, 501])
def test_other_errors_are_not_retried(status: int) -> None:
    outcome, waits, _ = drive(READ, [problem(status)])
    assert outcome.status == status
    assert waits == []


@pytest.mark.parametrize("failure", [problem(502), problem(503), problem(504), TransportError("broken")])
def test_changes_are_not_retried(failure: Response | Exception) -> None:
    outcome, waits, _ = drive(PATCH, [failure])
    assert isinstance(outcome, (ApiError, TransportError))
    assert waits == []


def test_changes_are_retried_after_429_only() -> None:
    outcome, waits, requests = drive(PATCH, [problem(429, retry_after="2"), OK])
    assert outcome is OK
    assert waits == [2.25]
    assert [request.method for request in requests] == ["PATCH", "PATCH"]
    outcome, waits, requests = drive(PATCH, [problem(429, retry_after="2"), TransportError("broken")])
    assert isinstance(outcome, TransportError)
    assert len(requests) == 2
    outcome, waits, _ = drive(PATCH, [problem(429)] * 3)
    assert isinstance(outcome, RateLimitError)
    assert len(waits) == 2


def test_retries_end() -> None:
    outcome, waits, _ = drive(READ, [problem(503)] * 5, max_retries=4)
    assert outcome.status == 503
    assert len(waits) == 4
    outcome, waits, _ = drive(READ, [problem(503)], max_retries=0)
    assert outcome.status == 503
    assert waits == []


def test_total_timeout_limits_attempts_and_waits() -> None:
    outcome, waits, requests = drive(
        READ, [problem(503, retry_after="3"), problem(503, retry_after="3")], total_timeout=5.0
    )
    assert outcome.status == 503
    assert waits == [3.25]
    assert [request.timeout for request in requests] == [5.0, 1.75]


def test_retry_after_formats() -> None:
    assert parse_retry_after("12") == 12
    assert parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT") == 0
    future = parse_retry_after("Fri, 31 Dec 9998 23:59:59 GMT")
    assert future is not None
    assert future > 30
    for invalid in (None, "", "soon", "-1", "1.5", "²"):
        assert parse_retry_after(invalid) is None


def respond_with(*answers: bytes | None) -> Stub:
    """A stub that grants tokens, and gives these answers in turn."""
    remaining = list(answers)
    return Stub(lambda request: TOKEN_RESPONSE if request.target == "/oauth2/token" else remaining.pop(0))


def calls_of(stub: Stub) -> list[RawRequest]:
    return [request for request in stub.requests if request.target != "/oauth2/token"]


BROKEN = {
    "closed": None,
    "cut head": b"HTTP/1.1 201 Crea",
    "cut body": b"HTTP/1.1 201 Created\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{",
    "cut chunk": b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n10\r\n{",
    "no HTTP": b"220 mail.example.com ESMTP\r\n\r\nconnection: close",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_connection_is_retried_with_the_same_key(clients: Clients, broken: str) -> None:
    head = BROKEN[broken]
    head = head if head is None or b"connection: close" in head else head + b"connection: close"
    with respond_with(head, response(201, CREATED)) as stub:
        created = clients(url=stub.url, **CREDENTIAL).reverse_sms.create(phone_number="+990123456700")
    assert created["check_id"] == "01a1"
    first, second = calls_of(stub)
    assert first.header("idempotency-key") == second.header("idempotency-key")
    assert len(first.header("idempotency-key")) >= 32
    assert first.body == second.body == b'{"phone_number":"+990123456700"}'


def test_chunked_response_is_read(clients: Clients) -> None:
    body = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    body += b'5;x=1\r\n{"che\r\n0D\r\nck_id":"1"}  \r\n0\r\nx: y\r\n\r\n'
    to_the_end = b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"check_id":"2"}'
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" + response(200, {"check_id": "3"})
    with respond_with(body, interim, to_the_end, response(200, {"check_id": "4"})) as stub:
        client = clients(url=stub.url, **CREDENTIAL)
        assert [client.reverse_sms.get("x")["check_id"] for _ in range(4)] == ["1", "3", "2", "4"]


def test_error_of_a_proxy_has_no_code(clients: Clients) -> None:
    page = b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>"
    redirect = b"HTTP/1.1 302 Found\r\nlocation: https://login.example.com/\r\ncontent-length: 0\r\n\r\n"
    html = b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n<html></html>"
    with respond_with(page, redirect, html) as stub:
        client = clients(url=stub.url, **CREDENTIAL)
        for status in (403, 302, 200):
            with pytest.raises(ApiError) as raised:
                client.reverse_sms.get("x")
            assert (raised.value.status, raised.value.error_code) == (status, None)
            assert "<html>" not in str(raised.value)


def test_refused_connection(clients: Clients) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = clients(url=f"http://127.0.0.1:{unused.getsockname()[1]}", max_retries=1, **CREDENTIAL)
        with pytest.raises(TransportError) as raised:
            client.eligibility.of_number("+990123456700")
    assert "127.0.0.1" in str(raised.value)
    assert "990123456700" not in str(raised.value)


class Silence:
    """A server that accepts connections and sends a byte from time to time, but no response."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.count = 0
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        held = []
        while True:
            connection, _ = self.listener.accept()
            held.append(connection)
            if self.is_over.is_set():
                break
            read_request(connection.makefile("rb"))
            self.count += 1
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        for connection in held:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        socket.create_connection(self.listener.getsockname()).close()
        self.thread.join()
        self.listener.close()


def test_timeout_applies_to_each_attempt(clients: Clients) -> None:
    with Silence() as silence:
        with pytest.raises(TransportTimeoutError):
            clients(url=silence.url, timeout=0.05, max_retries=2, **CREDENTIAL).verifications.get("x")
        assert silence.count == 3


def test_total_timeout_ends_a_call(clients: Clients) -> None:
    with Silence() as silence:
        client = clients(url=silence.url, max_retries=100, **CREDENTIAL)
        with pytest.raises(TimeoutError):
            client.with_options(total_timeout=0.2).verifications.get("x")


def test_cancelled_task_stops_waiting(loop: Loop) -> None:
    async def run(url: str) -> None:
        async with AsyncRingtrue(url, **CREDENTIAL) as client:
            task = asyncio.ensure_future(client.verifications.get("x"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The lock of the token is free again.
            with pytest.raises(TimeoutError):
                await client.with_options(total_timeout=0.05).verifications.get("x")

    with Silence() as silence:
        loop.run(asyncio.wait_for(run(silence.url), DEADLINE_SECONDS))


def test_idle_connection_is_used_again_and_a_closed_one_is_not(clients: Clients) -> None:
    with respond_with(
        *[response(200, CREATED)] * 2, response(200, CREATED, connection="close"), response(200, CREATED)
    ) as stub:
        connections = set()
        process = stub.server.process_request

        def record(request: Any, client_address: Any) -> None:
            connections.add(client_address)
            process(request, client_address)

        stub.server.process_request = record  # type: ignore[method-assign]
        client = clients(url=stub.url, **CREDENTIAL)
        for _ in range(4):
            client.reverse_sms.get("x")
        assert len(connections) == 2


def test_header_injection_is_refused(clients: Clients) -> None:
    with respond_with() as stub:
        client = clients(url=stub.url, **CREDENTIAL)
        with pytest.raises(ValueError, match=r"[Ii]nvalid"):
            client.reverse_sms.create(phone_number="x", idempotency_key="a\r\nx-other: b")
        assert calls_of(stub) == []


def test_rate_limit_of_the_service(clients: Clients, tmp_path: Path) -> None:
    with Service(tmp_path, **{**UNLIMITED, "RINGTRUE_RATE_LIMITS__READ": "3"}) as service:
        impatient = clients(**service.credential(max_retries=0))
        with pytest.raises(RateLimitError) as raised:
            for _ in range(20):
                impatient.verifications.list(size=1).page()
        assert raised.value.error_code == "too_many_requests"
        assert raised.value.retry_after is not None
        assert raised.value.retry_after >= 1
        patient = clients(**service.credential())
        for _ in range(5):
            patient.verifications.list(size=1).page()


class CuttingGateway(Stub):
    """Passes requests to the service. When the first check has been created, it kills the service, breaks the
    connection instead of passing the response on, and starts the service again.
    """

    def __init__(self, service: Service) -> None:
        self.has_cut = False

        def forward(request: RawRequest) -> bytes | None:
            lines = [
                f"{request.method} {request.target} HTTP/1.1",
                *(f"{name}: {value}" for name, value in request.headers),
            ]
            head = "\r\n".join([*lines, "connection: close"]).encode() + b"\r\n\r\n"
            try:
                with socket.create_connection(("127.0.0.1", service.port), timeout=DEADLINE_SECONDS) as connection:
                    connection.sendall(head + request.body)
                    answer = b"".join(iter(lambda: connection.recv(65536), b""))
            except OSError:
                return None
            if request.target.endswith("-checks") and not self.has_cut:
                assert answer.startswith(b"HTTP/1.1 201"), answer
                self.has_cut = True
                service.stop(9)
                self.restart = threading.Thread(target=service.start)
                self.restart.start()
                return None
            return answer

        super().__init__(forward)


def test_restart_of_the_service_creates_one_check(clients: Clients, tmp_path: Path) -> None:
    with Service(tmp_path, **UNLIMITED) as service:
        with CuttingGateway(service) as gateway:
            client = clients(**service.credential(url=gateway.url, max_retries=50))
            check = client.reverse_sms.create(phone_number="+990123456700", reference_id="restart")
            gateway.restart.join()
        found = list(clients(**service.credential()).reverse_sms.list(field("reference_id").eq("restart")))
        assert [item["check_id"] for item in found] == [check["check_id"]]


class Recorder:
    """A transport of the caller's."""

    def __init__(self, body: bytes = b'{"access_token":"t","expires_in":3600}') -> None:
        self.requests: list[Request] = []
        self.body = body

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(200, {}, self.body)

    def close(self) -> None:
        pass


def test_transport_can_be_replaced() -> None:
    transport = Recorder()
    with Ringtrue("https://host/base", **CREDENTIAL, transport=transport) as client:
        client.eligibility.of_number("+990123456700")
    urls = [request.url for request in transport.requests]
    assert urls[:2] == [
        "https://host/base/oauth2/token",
        "https://host/base/v1/eligibility/phone-numbers/%2B990123456700",
    ]
    assert "Bearer" not in repr(transport.requests)


@pytest.mark.parametrize(
    ("timeout", "usual", "with_operator"), [(None, 10, 20), (3, 3, 3), (60, 60, 60)], ids=["default", "short", "long"]
)
def test_calls_that_ask_an_operator_have_more_time(timeout: float | None, usual: float, with_operator: float) -> None:
    """The service waits up to 15 seconds for the operator. The caller's own time-out has precedence."""
    ended = {"verification_id": "v", "status": "COMPLETED", "match": True, "steps": []}
    transport = Recorder(json.dumps({"access_token": "t", "expires_in": 3600, **ended}).encode())
    with Ringtrue("https://host", **CREDENTIAL, timeout=timeout, transport=transport) as client:
        assert client.verifications.redeem("v", {"verification_id": "v", "code": "c"}).verified
        client.verifications.redeem_code("v", "c")
        client.sim_swap.create(phone_number="+990123456700")
        client.sim_swap.get("x")
        client.with_options(timeout=4).verifications.redeem("v", {"verification_id": "v", "code": "c"})
    times = [request.timeout for request in transport.requests if not request.url.endswith("/oauth2/token")]
    assert times == [with_operator, with_operator, with_operator, usual, 4]
    assert {request.timeout for request in transport.requests if request.url.endswith("/oauth2/token")} == {usual}
