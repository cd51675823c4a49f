"""Callbacks in FastAPI and Starlette.

app.add_route("/callbacks", callback_endpoint(client, on_callback), methods=["POST"])
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request  # noqa: TC002 (FastAPI evaluates the annotation)
from starlette.responses import PlainTextResponse, Response

from .callbacks import MAX_BODY_BYTES, AsyncCallbackVerifier, CallbackError, process_once_async

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ._client import AsyncRingtrue
    from .callbacks import AsyncSeenStore, CallbackEvent, SeenStore

__all__ = ["callback_endpoint"]


def callback_endpoint(
    client: AsyncRingtrue | AsyncCallbackVerifier,
    handler: Callable[[CallbackEvent], object],
    *,
    seen: SeenStore | AsyncSeenStore | None = None,
    public_url: str | None = None,
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Returns an endpoint that verifies callbacks and passes their events to the handler.

    It responds with 200 after the handler has returned, and with 401, 400, 413 or 503 to requests that it rejects. An
    exception of the handler is the framework's to handle; the service then sends the callback again.

    Args:
        client: The client, or a verifier of callbacks.
        handler: Processes an event, within ten seconds. A plain function runs in the thread pool.
        seen: Calls the handler once for each event, even if its callback arrives again.
        public_url: Your callback URL. Pass it in production: a callback that was signed for another receiver could
            otherwise be replayed to you with its `Host` header. It is also needed if a proxy changes the host or the
            path.
    """
    callbacks = client if isinstance(client, AsyncCallbackVerifier) else client.callbacks

    async def process(event: CallbackEvent) -> None:
        result = handler(event) if inspect.iscoroutinefunction(handler) else await run_in_threadpool(handler, event)
        if inspect.isawaitable(result):
            await result

    async def ringtrue_callback(request: Request) -> Response:
        try:
            event = await callbacks.verify(
                method=request.method,
                target=_raw_target(request),
                headers=request.headers.raw,
                body=await _read_body(request),
                public_url=public_url,
            )
            if seen is None:
                await process(event)
            else:
                await process_once_async(seen, event, process)
        except CallbackError as error:
            return PlainTextResponse(f"{error}\n", error.status)
        return Response()

    return ringtrue_callback


def _raw_target(request: Request) -> str:
    raw_path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query = request.scope["query_string"].decode("latin-1")
    return raw_path.decode("latin-1").partition("?")[0] + (f"?{query}" if query else "")


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise CallbackError("body_too_large", "the body is too large", 413)
    return bytes(body)
