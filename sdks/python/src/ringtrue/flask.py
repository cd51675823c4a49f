"""Callbacks in Flask.

app.post("/callbacks")(callback_view(client, on_callback))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from flask import Response, request

from ._wsgi import raw_headers, raw_target
from .callbacks import MAX_BODY_BYTES, CallbackError, CallbackVerifier, process_once

if TYPE_CHECKING:
    from ._client import Ringtrue
    from .callbacks import CallbackEvent, SeenStore

__all__ = ["callback_view"]


def callback_view(
    client: Ringtrue | CallbackVerifier,
    handler: Callable[[CallbackEvent], object],
    *,
    seen: SeenStore | None = None,
    public_url: str | None = None,
) -> Callable[[], Response]:
    """Returns a view that verifies callbacks and passes their events to the handler.

    It responds with 200 after the handler has returned, and with 401, 400, 413 or 503 to requests that it rejects. An
    exception of the handler is Flask's to handle; the service then sends the callback again.

    Args:
        client: The client, or a verifier of callbacks.
        handler: Processes an event, within ten seconds.
        seen: Calls the handler once for each event, even if its callback arrives again.
        public_url: Your callback URL. Pass it in production: a callback that was signed for another receiver could
            otherwise be replayed to you with its `Host` header. It is also needed if a proxy changes the host or the
            path.
    """
    callbacks = client if isinstance(client, CallbackVerifier) else client.callbacks

    def ringtrue_callback() -> Response:
        try:
            event = callbacks.verify(
                method=request.method,
                target=raw_target(request.environ),
                headers=raw_headers(request.environ),
                # One byte more, so that `verify` rejects a larger body.
                body=request.stream.read(MAX_BODY_BYTES + 1),
                public_url=public_url,
            )
            if seen is None:
                handler(event)
            else:
                process_once(seen, event, handler)
        except CallbackError as error:
            return Response(f"{error}\n", error.status, mimetype="text/plain")
        return Response(status=200)

    return ringtrue_callback
