"""HTTP/1.1 over the standard library, blocking and with asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import os
import socket
import ssl
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from ._errors import TransportError, TransportTimeoutError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Less than the time for which common servers and load balancers keep idle connections.
MAX_IDLE_SECONDS = 15.0
MAX_IDLE_CONNECTIONS = 16
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Request:
    """An HTTP request. Its header `authorization` is secret, so `repr` shows no headers."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    timeout: float
    """Seconds until the response must be complete."""
    is_repeatable: bool = True
    """Whether the request may be sent twice. If not, a transport must not send it on a connection that may be dead."""


@dataclass(frozen=True)
class Response:
    """An HTTP response. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class Transport(Protocol):
    """Sends requests for `Ringtrue`. Implement it to use another HTTP library."""

    def send(self, request: Request) -> Response:
        """Sends a request without following redirects. Raises `TransportError` if there is no response."""

    def close(self) -> None:
        """Closes idle connections."""


class AsyncTransport(Protocol):
    """Sends requests for `AsyncRingtrue`. Implement it to use another HTTP library."""

    async def send(self, request: Request) -> Response:
        """Sends a request without following redirects. Raises `TransportError` if there is no response."""

    async def close(self) -> None:
        """Closes idle connections."""


def _transport_error(request: Request, cause: BaseException) -> TransportError:
    """Describes a failed exchange by its host only: paths can contain a number."""
    host = urlsplit(request.url).netloc
    # Three classes before Python 3.11.
    if isinstance(cause, (TimeoutError, socket.timeout, asyncio.TimeoutError)):
        return TransportTimeoutError(f"no response from {host} within {request.timeout:.3g} s")
    return TransportError(f"no response from {host}: {type(cause).__name__}: {cause}")


def _target(request: Request) -> str:
    url = urlsplit(request.url)
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


class HttpTransport:
    """Blocking transport. It keeps connections alive, and may be shared by threads and inherited by forks."""

    def __init__(self, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._idle: list[tuple[str, http.client.HTTPConnection, float]] = []

    def send(self, request: Request) -> Response:
        """Sends a request."""
        deadline = time.monotonic() + request.timeout
        connection = self._take(request)
        try:
            response = self._exchange(connection, request, deadline)
        except (OSError, http.client.HTTPException) as cause:
            connection.close()
            raise _transport_error(request, cause) from None
        except BaseException:
            connection.close()
            raise
        return response

    def _exchange(self, connection: http.client.HTTPConnection, request: Request, deadline: float) -> Response:
        connection.timeout = _remaining(deadline)
        if connection.sock is None:
            connection.connect()
        # After the head of a response, `http.client` may give the socket to the response alone.
        sock = connection.sock
        sock.settimeout(_remaining(deadline))
        connection.request(request.method, _target(request), body=request.body, headers=dict(request.headers))
        response = connection.getresponse()
        body = bytearray()
        try:
            # Newer versions of Python close the response, and with it the socket, at the end of the body.
            while not response.isclosed():
                sock.settimeout(_remaining(deadline))
                part = response.read1(65536)
                if not part:
                    break
                body += part
                if len(body) > MAX_RESPONSE_BYTES:
                    raise http.client.HTTPException("the response is too large")
        finally:
            # Otherwise the connection is not ready for another request.
            response.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        has_body = response.status not in (http.client.NO_CONTENT, http.client.NOT_MODIFIED)
        length = headers.get("content-length", str(len(body)))
        # `http.client` does not tell a connection that broke within the headers or the body from the end.
        has_ended_early = not body and "content-length" not in headers and response.will_close
        if has_body and (length != str(len(body)) or has_ended_early):
            raise http.client.IncompleteRead(bytes(body))
        if response.will_close:
            connection.close()
        else:
            self._put_back(request, connection)
        return Response(response.status, headers, bytes(body))

    def _take(self, request: Request) -> http.client.HTTPConnection:
        url = urlsplit(request.url)
        origin = f"{url.scheme}://{url.netloc}"
        with self._lock:
            if self._pid != os.getpid():
                # A forked process must not use its parent's connections.
                self._pid, self._idle = os.getpid(), []
            oldest = time.monotonic() - MAX_IDLE_SECONDS
            kept = [entry for entry in self._idle if entry[2] >= oldest]
            expired = [entry for entry in self._idle if entry[2] < oldest]
            at = next((at for at in reversed(range(len(kept))) if kept[at][0] == origin), None)
            found = kept.pop(at)[1] if at is not None and request.is_repeatable else None
            self._idle = kept
        for _, connection, _ in expired:
            connection.close()
        if found is not None:
            return found
        host = url.hostname or ""
        if url.scheme == "https":
            # Reading the system's certificates takes longer than a request.
            self._ssl_context = context = self._ssl_context or ssl.create_default_context()
            return http.client.HTTPSConnection(host, url.port, timeout=request.timeout, context=context)
        return http.client.HTTPConnection(host, url.port, timeout=request.timeout)

    def _put_back(self, request: Request, connection: http.client.HTTPConnection) -> None:
        url = urlsplit(request.url)
        with self._lock:
            if len(self._idle) < MAX_IDLE_CONNECTIONS:
                self._idle.append((f"{url.scheme}://{url.netloc}", connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        """Closes idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection, _ in idle:
            connection.close()


@dataclass
class _Stream:
    """A connection of the asyncio transport."""

    origin: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0

    def is_usable(self) -> bool:
        is_fresh = time.monotonic() - self.idle_since < MAX_IDLE_SECONDS
        return is_fresh and not self.reader.at_eof() and not self.writer.is_closing()


class AsyncHttpTransport:
    """Transport over asyncio streams. It keeps connections alive, for each event loop separately."""

    def __init__(self, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context
        self._idle: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Stream]] = weakref.WeakKeyDictionary()

    async def send(self, request: Request) -> Response:
        """Sends a request. If the task is cancelled, the connection is closed."""
        try:
            return await asyncio.wait_for(self._send(request), request.timeout)
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError, http.client.HTTPException) as cause:
            raise _transport_error(request, cause) from None

    async def _send(self, request: Request) -> Response:
        stream = await self._take(request)
        is_reusable = False
        try:
            stream.writer.write(_request_bytes(request))
            await stream.writer.drain()
            response, is_reusable = await _read_response(stream.reader)
        finally:
            idle = self._streams()
            if is_reusable and len(idle) < MAX_IDLE_CONNECTIONS:
                stream.idle_since = time.monotonic()
                idle.append(stream)
            else:
                stream.writer.close()
        return response

    def _streams(self) -> list[_Stream]:
        return self._idle.setdefault(asyncio.get_running_loop(), [])

    async def _take(self, request: Request) -> _Stream:
        url = urlsplit(request.url)
        origin = f"{url.scheme}://{url.netloc}"
        idle = self._streams()
        for stream in [stream for stream in idle if not stream.is_usable()]:
            idle.remove(stream)
            stream.writer.close()
        found = next((stream for stream in reversed(idle) if stream.origin == origin), None)
        if found is not None and request.is_repeatable:
            idle.remove(found)
            return found
        is_tls = url.scheme == "https"
        if is_tls and self._ssl_context is None:
            # Reading the system's certificates takes longer than a request.
            self._ssl_context = ssl.create_default_context()
        context = self._ssl_context if is_tls else None
        port = url.port or (443 if is_tls else 80)
        reader, writer = await asyncio.open_connection(url.hostname, port, ssl=context, limit=MAX_HEAD_BYTES)
        return _Stream(origin, reader, writer)

    async def close(self) -> None:
        """Closes the idle connections of the running event loop."""
        idle = self._idle.pop(asyncio.get_running_loop(), [])
        for stream in idle:
            stream.writer.close()
        for stream in idle:
            # A server that closes the connection without TLS's notice has closed it nevertheless.
            with contextlib.suppress(OSError):
                await stream.writer.wait_closed()


def _request_bytes(request: Request) -> bytes:
    url = urlsplit(request.url)
    headers = {"host": url.netloc, **request.headers}
    if request.body is not None or request.method != "GET":
        headers["content-length"] = str(len(request.body or b""))
    head = f"{request.method} {_target(request)} HTTP/1.1\r\n"
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"invalid value of header {name}")
        head += f"{name}: {value}\r\n"
    return head.encode("latin-1") + b"\r\n" + (request.body or b"")


async def _read_response(reader: asyncio.StreamReader) -> tuple[Response, bool]:
    """Returns the response, and whether the connection can be used again."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        status_line, _, lines = head.partition(b"\r\n")
        version, _, rest = status_line.partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit():
            raise http.client.HTTPException("the response is not HTTP/1.1")
        status = int(rest[:3])
        if status >= http.client.OK:
            break
    headers = {name.lower(): value for name, value in http.client.parse_headers(io.BytesIO(lines)).items()}
    is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    length = headers.get("content-length")
    keeps_alive = version == b"HTTP/1.1" and headers.get("connection", "").lower() != "close"
    if status in (http.client.NO_CONTENT, http.client.NOT_MODIFIED):
        body = b""
    elif is_chunked:
        body = await _read_chunks(reader)
    elif length is not None:
        if not (length.isascii() and length.isdigit()) or int(length) > MAX_RESPONSE_BYTES:
            raise http.client.HTTPException("the response is too large")
        body = await reader.readexactly(int(length))
    else:
        keeps_alive = False
        body = await _read_to_end(reader)
    return Response(status, headers, body), keeps_alive


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while part := await reader.read(MAX_HEAD_BYTES):
        body += part
        if len(body) > MAX_RESPONSE_BYTES:
            raise http.client.HTTPException("the response is too large")
    return bytes(body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        try:
            size = int(line.split(b";")[0].strip(), 16)
        except ValueError:
            raise http.client.HTTPException("invalid chunk") from None
        if not 0 <= size <= MAX_RESPONSE_BYTES - len(body):
            raise http.client.HTTPException("the response is too large")
        if size == 0:
            break
        body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise http.client.HTTPException("invalid chunk")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return bytes(body)
