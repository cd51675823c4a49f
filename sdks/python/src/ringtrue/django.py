"""Callbacks in Django.

urlpatterns = [path("callbacks", callback_view(client, on_callback))]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, cast

from django.http import HttpRequest, HttpResponse

from ._client import AsyncRingtrue
from ._wsgi import raw_headers, raw_target
from .callbacks import (
    MAX_BODY_BYTES,
    AsyncCallbackVerifier,
    CallbackError,
    _resolve,
    process_once,
    process_once_async,
)

if TYPE_CHECKING:
    from ._client import Ringtrue
    from .callbacks import AsyncSeenStore, CallbackEvent, CallbackVerifier, SeenStore

__all__ = ["callback_view"]


def callback_view(
    client: Ringtrue | AsyncRingtrue | CallbackVerifier | AsyncCallbackVerifier,
    handler: Callable[[CallbackEvent], object],
    *,
    seen: SeenStore | AsyncSeenStore | None = None,
    public_url: str | None = None,
) -> Callable[[HttpRequest], Any]:
    """Returns a view that verifies callbacks and passes their events to the handler.

    With an asynchronous client, the view is asynchronous, and the handler and the store may be.
    It responds with 200 after the handler has returned, and with 401, 400, 413 or 503 to requests that it rejects. An
    exception of the handler is Django's to handle; the service then sends the callback again.
    The view is exempt from the CSRF check, because the signature authenticates the request.

    Args:
        client: The client, or a verifier of callbacks.
        handler: Processes an event, within ten seconds.
        seen: Calls the handler once for each event, even if its callback arrives again.
        public_url: Your callback URL. Pass it in production: a callback that was signed for another receiver could
            otherwise be replayed to you with its `Host` header. It is also needed if a proxy changes the host or the
            path.
    """
    callbacks: Any = getattr(client, "callbacks", client)

    def ringtrue_callback(request: HttpRequest) -> HttpResponse:
        try:
            event = callbacks.verify(**_raw_request(request), public_url=public_url)
            if seen is None:
                handler(event)
            else:
                process_once(seen, event, handler)  # type: ignore[arg-type]
        except CallbackError as error:
            return _rejection(error)
        return HttpResponse()

    async def async_ringtrue_callback(request: HttpRequest) -> HttpResponse:
        try:
            event = await callbacks.verify(**_raw_request(request), public_url=public_url)
            if seen is None:
                await _resolve(handler(event))
            else:
                await process_once_async(seen, event, handler)
        except CallbackError as error:
            return _rejection(error)
        return HttpResponse()

    is_async = isinstance(client, (AsyncRingtrue, AsyncCallbackVerifier))
    view: Any = async_ringtrue_callback if is_async else ringtrue_callback
    # As the decorator `csrf_exempt`, which supports asynchronous views in Django 5 only.
    view.csrf_exempt = True
    return cast("Callable[[HttpRequest], Any]", view)


def _raw_request(request: HttpRequest) -> dict[str, Any]:
    scope = getattr(request, "scope", None)
    if scope is None:
        target, headers = raw_target(request.META), raw_headers(request.META)
    else:
        query = scope["query_string"].decode("latin-1")
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        target = path + (f"?{query}" if query else "")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    return {
        "method": request.method or "",
        "target": target,
        "headers": headers,
        # One byte more, so that `verify` rejects a larger body.
        "body": request.read(MAX_BODY_BYTES + 1),
    }


def _rejection(error: CallbackError) -> HttpResponse:
    return HttpResponse(f"{error}\n", status=error.status, content_type="text/plain")
