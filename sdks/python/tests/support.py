"""What the tests need: the real service, a browser, a phone, recorders and stubs. All on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import html
import http.cookiejar
import inspect
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, cast

from ringtrue import ApiError, AsyncPager, AsyncRingtrue, Ringtrue
from ringtrue._flow import Resource

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

    from typing_extensions import Self

BINARY = os.environ.get("BINARY_UNDER_TEST", "")
DEADLINE_SECONDS = 30.0
# Headers of a browser that the hosted page itself sends to one of its URLs.
NAVIGATION = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
UNLIMITED = {
    f"RINGTRUE_RATE_LIMITS__{name}": "1000000" for name in ("READ", "CREATE", "TOKEN", "MANAGEMENT", "ELIGIBILITY")
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return cast("int", listener.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)


def resend(product: Any, item_id: str) -> Any:
    """Requests a callback again. The service may still be recording what the receiver has answered."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return product.resend_callback(item_id)
        except ApiError as error:
            if error.error_code != "callback_in_progress" or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def environment(**settings: str) -> dict[str, str]:
    """The service rejects `RINGTRUE_` variables that it does not know."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("RINGTRUE_")}, **settings}


class Service:
    """`ringtrue dev` with its own data folder and port."""

    def __init__(self, data: Path, **settings: str) -> None:
        assert BINARY, "BINARY_UNDER_TEST is not set"
        self.data = data
        self.settings = settings
        self.port = free_port()
        self.start()
        dev = json.loads((data / "dev.json").read_text())
        self.url: str = dev["base_url"]
        self.project: dict[str, str] = dev["project"]
        self.workspace: dict[str, str] = dev["workspace"]
        self.project_id = self.project["project_id"]
        self.workspace_id = self.workspace["workspace_id"]

    def start(self) -> None:
        command = [BINARY, "dev", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(**self.settings))
        assert self.process.stdout is not None
        assert any("Ctrl+C" in line for line in self.process.stdout), "ringtrue exited before it was ready"

    def stop(self, with_signal: int = signal.SIGTERM) -> None:
        self.process.send_signal(with_signal)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def operate(self, *command: str) -> None:
        """Runs an operator command."""
        env = environment(
            RINGTRUE_BASE_URL=self.url,
            RINGTRUE_STORE__URL=f"sqlite:{self.data / 'ringtrue.db'}",
            RINGTRUE_KEYS__MASTER_KEY_FILE=str(self.data / "master.key"),
        )
        subprocess.run([BINARY, *command], env=env, check=True, capture_output=True)

    def credential(self, **more: Any) -> dict[str, Any]:
        """Arguments of a project's client."""
        return {
            "url": self.url,
            "client_id": self.project["client_id"],
            "client_secret": self.project["client_secret"],
            "allow_sandbox": True,
            **more,
        }

    def workspace_credential(self, **more: Any) -> dict[str, Any]:
        """Arguments of a workspace's client."""
        credential = {"client_id": self.workspace["client_id"], "client_secret": self.workspace["client_secret"]}
        return self.credential(**credential, **more)


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(DEADLINE_SECONDS * 2)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class _ListProxy:
    def __init__(self, pager: AsyncPager[Any], loop: Loop) -> None:
        self.pager = pager
        self.loop = loop

    def page(self, number: int = 1) -> Any:
        return self.loop.run(self.pager.page(number))

    def __iter__(self) -> Iterator[Any]:
        items = self.pager.__aiter__()

        async def advance() -> Any:
            return await items.__anext__()

        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self.loop.run(advance())


class BlockingProxy:
    """An asynchronous client with the surface of a blocking one, so that the same tests run with both."""

    def __init__(self, target: Any, loop: Loop) -> None:
        self._proxied = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._proxied, name)
        if isinstance(found, Resource):
            return BlockingProxy(found, self._loop)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            if inspect.iscoroutine(result):
                return self._loop.run(result)
            if isinstance(result, AsyncPager):
                return _ListProxy(result, self._loop)
            return BlockingProxy(result, self._loop) if isinstance(result, AsyncRingtrue) else result

        return call

    def __repr__(self) -> str:
        return repr(self._proxied)


@dataclass
class Clients:
    """Makes clients of one flavour, and closes them."""

    flavour: str
    loop: Loop
    made: list[Any] = field(default_factory=list)

    def __call__(self, **settings: Any) -> Ringtrue:
        if self.flavour == "blocking":
            client: Any = Ringtrue(**settings)
        else:
            client = BlockingProxy(AsyncRingtrue(**settings), self.loop)
        self.made.append(client)
        return cast("Ringtrue", client)

    def close(self) -> None:
        for client in self.made:
            client.close()


class Browser:
    """A browser with cookies that does not follow redirects by itself."""

    def __init__(self) -> None:
        class NoRedirects(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_: object, **__: object) -> None:
                return None

        # `ProxyHandler({})`: the environment's proxies are not for loopback.
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects, jar)

    def open(
        self, url: str, *, form: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Returns the status, the text, and the location of a redirect."""
        data = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(url, data, headers or {})
        try:
            with self.opener.open(request, timeout=DEADLINE_SECONDS) as response:
                return response.status, response.read().decode(), ""
        except urllib.error.HTTPError as error:
            with error:
                location = urllib.parse.urljoin(url, error.headers.get("location", ""))
                return error.code, error.read().decode(), location

    def check_silently(self, page_url: str, return_url: str) -> str:
        """Lets the hosted page start the silent check. Returns the URL with which it returns, without opening it."""
        _, text, _ = self.open(page_url + "/silent", headers=NAVIGATION)
        found = re.search(r'data-operator="([^"]+)"', text)
        assert found, text
        url = html.unescape(found[1])
        for _ in range(10):
            if url.startswith(return_url):
                return url
            status, text, url = self.open(url)
            assert status in (302, 303), text
        raise AssertionError("too many redirects")

    def wait_for_return(self, page_url: str, return_url: str) -> str:
        """Waits until the page has a link back."""
        links: list[str] = []

        def has_link() -> bool:
            links.extend(re.findall(rf'href="({re.escape(return_url)}\?[^"]+)"', self.open(page_url)[1]))
            return bool(links)

        wait_until(has_link, "the page links back")
        return html.unescape(links[0])


def open_on_phone(url: str) -> dict[str, str]:
    """Opens a check URL as an app does. Returns the JSON at the end."""
    browser = Browser()
    for _ in range(10):
        status, text, location = browser.open(url, headers={"accept": "application/json"})
        if status not in (302, 303):
            return cast("dict[str, str]", json.loads(text))
        url = location
    raise AssertionError("too many redirects")


@dataclass(frozen=True)
class RawRequest:
    """An HTTP request as received."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, wanted: str) -> str:
        return next(value for name, value in self.headers if name.lower() == wanted)

    def with_header(self, wanted: str, value: str) -> RawRequest:
        return replace(self, headers=(*(pair for pair in self.headers if pair[0].lower() != wanted), (wanted, value)))

    def without_header(self, unwanted: str) -> RawRequest:
        return replace(self, headers=tuple(pair for pair in self.headers if pair[0].lower() != unwanted))

    def arguments(self) -> dict[str, Any]:
        """Arguments of `callbacks.verify`."""
        return {"method": self.method, "target": self.target, "headers": self.headers, "body": self.body}

    def send(self, port: int) -> int:
        """Sends the request as it is. Returns the status of the response."""
        head = f"{self.method} {self.target} HTTP/1.1\r\n"
        others = [pair for pair in self.headers if pair[0].lower() not in ("connection", "content-length")]
        for name, value in [*others, ("content-length", str(len(self.body))), ("connection", "close")]:
            head += f"{name}: {value}\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS) as connection:
            connection.sendall(head.encode() + b"\r\n" + self.body)
            with connection.makefile("rb") as stream:
                line = stream.readline().decode()
                stream.read()
        return int(line.split(" ")[1])


def read_request(stream: Any) -> RawRequest | None:
    line = stream.readline().decode("latin-1")
    if not line:
        return None
    method, target, _ = line.split(" ")
    headers = []
    while line := stream.readline().decode("latin-1").strip():
        name, value = line.split(":", 1)
        headers.append((name, value.strip()))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return RawRequest(method, target, tuple(headers), stream.read(length))


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Stub:
    """An HTTP server. `respond` gets each request, and returns the raw response, or `None` to break the connection."""

    def __init__(self, respond: Callable[[RawRequest], bytes | None]) -> None:
        self.requests: list[RawRequest] = []
        stub = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):
                    while (request := read_request(self.rfile)) is not None:
                        stub.requests.append(request)
                        response = respond(request)
                        if response is None:
                            return
                        self.wfile.write(response)
                        if b"connection: close" in response:
                            return

        self.server = _Server(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def response(status: int, body: object = None, **headers: str) -> bytes:
    """A raw response with JSON."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Status", "content-type: application/json", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


TOKEN_RESPONSE = response(
    200, {"access_token": "example-token", "token_type": "bearer", "expires_in": 3600, "scope": "verification"}
)


class Receiver(Stub):
    """Records callbacks."""

    def __init__(self) -> None:
        super().__init__(lambda _: response(200, connection="close"))

    @property
    def callback_url(self) -> str:
        return f"{self.url}/call%2Fbacks?order=7&note=%C3%A9"

    def wait(self, count: int = 1) -> RawRequest:
        wait_until(lambda: len(self.requests) >= count, f"callback {count}")
        return self.requests[count - 1]
