"""Adapters, in the real frameworks on real servers, with callbacks from the real service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socketserver
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
import fastapi
import flask
import pytest
import uvicorn
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.urls import path as django_path
from starlette.applications import Starlette
from starlette.routing import Route
from support import DEADLINE_SECONDS, RawRequest, Receiver, wait_until
from test_callbacks import Forger, complete_reverse_sms
from werkzeug.serving import WSGIRequestHandler as WerkzeugHandler
from werkzeug.serving import make_server as make_werkzeug_server

import ringtrue.django
import ringtrue.fastapi
import ringtrue.flask
from ringtrue import AsyncCallbackVerifier, AsyncRingtrue, CallbackVerifier, MemorySeenStore, Ringtrue
from ringtrue.callbacks import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support import Service

    from ringtrue import CallbackEvent

PATH = "/callbacks"
urlpatterns: list[Any] = []  # Django's, set by each test

# Django and uvicorn log the exception of a handler.
logging.getLogger("django.request").setLevel(logging.CRITICAL)
logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class QuietWerkzeug(WerkzeugHandler):
    def log(self, *_: object) -> None:
        pass


class ThreadingWsgiServer(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextlib.contextmanager
def serving(server: Any, port: int) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class UvicornServer(uvicorn.Server):
    loop: asyncio.AbstractEventLoop

    async def startup(self, *args: Any, **kwargs: Any) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(*args, **kwargs)


@contextlib.contextmanager
def serve_asgi(app: Any, client: AsyncRingtrue) -> Iterator[int]:
    server = UvicornServer(uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, "uvicorn starts")
        yield server.servers[0].sockets[0].getsockname()[1]
        # As an application does when it stops.
        asyncio.run_coroutine_threadsafe(client.close(), server.loop).result(DEADLINE_SECONDS)
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def serve_flask(client: dict[str, Any], handler: Any, **options: Any) -> Iterator[int]:
    app = flask.Flask(__name__)
    app.logger.setLevel(logging.CRITICAL)
    with Ringtrue(**client) as ringtrue_client:
        app.post(PATH)(ringtrue.flask.callback_view(ringtrue_client, handler, **options))
        server = make_werkzeug_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietWerkzeug)
        with serving(server, server.server_port) as port:
            yield port


@contextlib.contextmanager
def serve_django_wsgi(client: dict[str, Any], handler: Any, **options: Any) -> Iterator[int]:
    with Ringtrue(**client) as ringtrue_client:
        urlpatterns[:] = [django_path(PATH[1:], ringtrue.django.callback_view(ringtrue_client, handler, **options))]
        app = get_wsgi_application()
        server = make_server("127.0.0.1", 0, app, ThreadingWsgiServer, Quiet)
        with serving(server, server.server_port) as port:
            yield port


@contextlib.contextmanager
def serve_django_asgi(client: dict[str, Any], handler: Any, **options: Any) -> Iterator[int]:
    ringtrue_client = AsyncRingtrue(**client)
    urlpatterns[:] = [django_path(PATH[1:], ringtrue.django.callback_view(ringtrue_client, handler, **options))]
    with serve_asgi(get_asgi_application(), ringtrue_client) as port:
        yield port


@contextlib.contextmanager
def serve_fastapi(client: dict[str, Any], handler: Any, **options: Any) -> Iterator[int]:
    app = fastapi.FastAPI()
    ringtrue_client = AsyncRingtrue(**client)
    app.post(PATH)(ringtrue.fastapi.callback_endpoint(ringtrue_client, handler, **options))
    with serve_asgi(app, ringtrue_client) as port:
        yield port


@contextlib.contextmanager
def serve_starlette(client: dict[str, Any], handler: Any, **options: Any) -> Iterator[int]:
    ringtrue_client = AsyncRingtrue(**client)
    endpoint = ringtrue.fastapi.callback_endpoint(ringtrue_client, handler, **options)
    with serve_asgi(Starlette(routes=[Route(PATH, endpoint, methods=["POST"])]), ringtrue_client) as port:
        yield port


SERVERS: dict[str, Callable[..., Any]] = {
    "flask": serve_flask,
    "django-wsgi": serve_django_wsgi,
    "django-asgi": serve_django_asgi,
    "fastapi": serve_fastapi,
    "starlette": serve_starlette,
}


@pytest.fixture(params=SERVERS)
def serve(request: pytest.FixtureRequest) -> Callable[..., Any]:
    django.urls.clear_url_caches()
    return SERVERS[request.param]


@pytest.fixture
def good(service: Service) -> RawRequest:
    with Receiver() as receiver, Ringtrue(**service.credential()) as client:
        complete_reverse_sms(client, f"{receiver.url}{PATH}?order=7&note=%C3%A9")
        return receiver.wait()


def test_callback_of_the_service_is_delivered(serve: Callable[..., Any], service: Service) -> None:
    events: list[CallbackEvent] = []
    with serve(service.credential(), events.append) as port, Ringtrue(**service.credential()) as client:
        check_id = complete_reverse_sms(client, f"http://127.0.0.1:{port}{PATH}?order=7&note=%C3%A9")
        wait_until(lambda: bool(events), "the callback arrives")
        assert [event.id for event in events] == [check_id]
        # The service got 200: it may be resent only then, and is not under way any more.
        wait_until(lambda: bool(client.reverse_sms.get(check_id).get("match")), "the check has ended")


def test_responses(serve: Callable[..., Any], service: Service, good: RawRequest) -> None:
    events: list[CallbackEvent] = []

    def handle(event: CallbackEvent) -> None:
        if not events:
            events.append(event)
            raise RuntimeError("the database is down")
        events.append(event)

    with serve(service.credential(), handle, seen=MemorySeenStore()) as port:
        # The failure leads to another delivery, the success to no third call.
        assert [good.send(port) for _ in range(4)] == [500, 200, 200, 200]
        assert len(events) == 2
        assert replace(good, body=good.body + b" ").send(port) == 401
        assert replace(good, target=PATH).send(port) == 401
        assert good.without_header("authorization").send(port) == 401
        assert replace(good, body=b" " * (MAX_BODY_BYTES + 1)).send(port) == 413
        assert len(events) == 2


def test_unavailable_keys_and_public_url(serve: Callable[..., Any]) -> None:
    events: list[CallbackEvent] = []
    with Forger() as forger:
        forger.is_up = False
        client = {"url": forger.url, "client_id": "c", "client_secret": "s"}
        with serve(client, events.append) as port:
            assert forger.sign().send(port) == 503
        forger.is_up = True
        with serve(client, events.append, public_url="https://backend.example/callbacks") as port:
            # A proxy has replaced the host.
            assert forger.sign().with_header("host", "internal").send(port) == 200
        with serve(client, events.append, public_url="https://other.example/callbacks") as port:
            assert forger.sign().send(port) == 401
    assert len(events) == 1


def test_sandbox_is_refused_by_default(serve: Callable[..., Any], service: Service, good: RawRequest) -> None:
    events: list[CallbackEvent] = []
    with serve(service.credential(allow_sandbox=False), events.append) as port:
        assert good.send(port) == 401
    assert events == []


@pytest.mark.parametrize("name", ["django-asgi", "fastapi", "starlette"])
def test_handler_may_be_a_coroutine(name: str, service: Service, good: RawRequest) -> None:
    events: list[CallbackEvent] = []

    async def handle(event: CallbackEvent) -> None:
        events.append(event)

    django.urls.clear_url_caches()
    with SERVERS[name](service.credential(), handle) as port:
        assert good.send(port) == 200
    with SERVERS[name](service.credential(), handle, seen=MemorySeenStore()) as port:
        assert [good.send(port), good.send(port)] == [200, 200]
    assert len(events) == 2


def test_verifiers_are_accepted(service: Service) -> None:
    verifier, async_verifier = CallbackVerifier(service.url), AsyncCallbackVerifier(service.url)
    assert callable(ringtrue.flask.callback_view(verifier, print))
    assert callable(ringtrue.django.callback_view(verifier, print))
    assert callable(ringtrue.django.callback_view(async_verifier, print))
    assert callable(ringtrue.fastapi.callback_endpoint(async_verifier, print))
