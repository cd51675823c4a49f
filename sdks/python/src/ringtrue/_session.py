"""Calls to the API: access tokens, retries and errors."""

from __future__ import annotations

import base64
import json
import os
import random
import secrets
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from ._errors import (
    ApiError,
    AuthenticationError,
    ConfigurationError,
    SandboxRefusedError,
    TransportError,
    TransportTimeoutError,
    api_error,
)
from ._flow import Page, locked, send, sleep
from ._http import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._flow import Flow
    from ._http import Response

T = TypeVar("T")

USER_AGENT = "ringtrue-python/1.0.0"
# A longer wait is for the caller to decide about.
MAX_RETRY_AFTER_SECONDS = 30.0
DEFAULT_TIMEOUT_SECONDS = 10.0
# The service asks the operator during the call, for at most 15 seconds.
OPERATOR_TIMEOUT_SECONDS = 20.0
BASE_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 8.0
# A token is renewed before it ends, so that none ends on its way to the service.
MAX_RENEWAL_MARGIN_SECONDS = 60.0
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
HTTP_UNAUTHORIZED = 401
HTTP_CONFLICT = 409
HTTP_TOO_MANY_REQUESTS = 429
FIRST_ERROR_STATUS = 300  # redirects are not followed


class Secret:
    """A text that does not appear in logs, error reports and debuggers by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"


@dataclass(frozen=True)
class Settings:
    """Settings of a client."""

    url: str
    client_id: str
    client_secret: Secret
    timeout: float | None
    """`None` is the default of the call."""
    max_retries: int
    allow_sandbox: bool
    total_timeout: float | None


def parse_url(url: str | None) -> str:
    """Validates the service's URL, by default from `RINGTRUE_URL`."""
    url = _setting("url", url, "RINGTRUE_URL").rstrip("/")
    parts = urlsplit(url)
    is_valid = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
    if not is_valid or parts.username is not None:
        # The URL may contain a password, so the text does not.
        raise ConfigurationError("url (RINGTRUE_URL) must be an http or https URL without user name and query")
    return url


def parse_settings(
    url: str | None,
    client_id: str | None,
    client_secret: str | None,
    *,
    timeout: float | None,
    max_retries: int,
    allow_sandbox: bool,
    total_timeout: float | None,
) -> Settings:
    """Validates settings, and reads missing ones from the environment."""
    if any(limit is not None and limit <= 0 for limit in (timeout, total_timeout)):
        raise ConfigurationError("timeout and total_timeout must be positive")
    if max_retries < 0:
        raise ConfigurationError("max_retries must not be negative")
    return Settings(
        url=parse_url(url),
        client_id=_setting("client_id", client_id, "RINGTRUE_CLIENT_ID"),
        client_secret=Secret(_setting("client_secret", client_secret, "RINGTRUE_CLIENT_SECRET")),
        timeout=timeout,
        max_retries=max_retries,
        allow_sandbox=allow_sandbox,
        total_timeout=total_timeout,
    )


def _setting(name: str, value: str | None, variable: str) -> str:
    found = value or os.environ.get(variable)
    if not found:
        raise ConfigurationError(f"{name} is missing: pass it, or set the environment variable {variable}")
    return found


@dataclass
class _Token:
    text: Secret
    renew_at: float


@dataclass
class _TokenSlot:
    """The token of one scope."""

    token: _Token | None = None
    requests: int = 0
    """Number of completed token requests."""
    error: Exception | None = None
    """Error of the last token request."""


class TokenCache:
    """Access tokens by scope."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, _TokenSlot] = {}

    def slot(self, scope: str) -> _TokenSlot:
        """Returns the slot of a scope."""
        with self._lock:
            return self._slots.setdefault(scope, _TokenSlot())


@dataclass(frozen=True)
class Call:
    """A call of the API."""

    method: str
    route: str
    """Path with the names of its parameters. It appears in errors; the parameters, which may be numbers, do not."""
    scope: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    body: object | None = None
    content_type: str = "application/json"
    idempotency_key: str | None = None
    is_repeatable: bool = True
    """Whether a repetition has no effect, so that the call is retried even if the service may have processed it."""
    default_timeout: float = DEFAULT_TIMEOUT_SECONDS
    """Seconds for each attempt, unless the caller has set them."""
    is_sandbox_only: bool = False

    @property
    def name(self) -> str:
        """Method and route, for errors."""
        return f"{self.method} {self.route}"

    def target(self) -> str:
        """Path and query."""
        path = self.route
        for name, value in self.path.items():
            if value in ("", ".", ".."):
                raise ValueError(f"invalid {name}")
            path = path.replace("{" + name + "}", quote(value, safe=""))
        query = {name: str(value) for name, value in self.query.items() if value is not None}
        return path + (f"?{urlencode(query, quote_via=quote)}" if query else "")


def random_key() -> str:
    """Returns a new idempotency key."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Session:
    """Settings, tokens and clock of a client. Its methods return flows."""

    settings: Settings
    tokens: TokenCache = field(default_factory=TokenCache)
    monotonic: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def with_settings(self, **changes: object) -> Session:
        """Returns a session with other settings and the same tokens."""
        return replace(self, settings=replace(self.settings, **cast("Any", changes)))

    def call(self, call: Call, result: type[T]) -> Flow[T]:  # noqa: ARG002 (for type checkers)
        """Makes a call, and returns its body as `result`, which is the type of a JSON object."""
        return self._call(call)  # type: ignore[return-value]

    def call_without_result(self, call: Call) -> Flow[None]:
        """Makes a call whose response has no body."""
        yield from self.respond(call)

    def pages(self, call: Call, item: type[T], size: int | None) -> Callable[[int], Flow[Page[T]]]:  # noqa: ARG002
        """Returns a function that fetches a page of a list."""
        # The largest size takes the fewest requests.
        size = 100 if size is None else size

        def fetch(number: int) -> Flow[Page[T]]:
            body = yield from self._call(replace(call, query={**call.query, "size": size, "page": number}))
            content, page = body["content"], body["page"]
            return Page(content, page["number"], page["size"], page["total_pages"], page["total_elements"])

        return fetch

    def _call(self, call: Call) -> Flow[dict[str, Any]]:
        response = yield from self.respond(call)
        return parse_object(call.name, response)

    def respond(self, call: Call) -> Flow[Response]:
        """Makes a call, with a token and retries."""
        settings = self.settings
        deadline = None if settings.total_timeout is None else self.monotonic() + settings.total_timeout
        headers = {"accept": "application/json, application/problem+json", "user-agent": USER_AGENT}
        body = None
        if call.body is not None:
            headers["content-type"] = call.content_type
            body = json.dumps(call.body, separators=(",", ":")).encode()
        if call.idempotency_key is not None:
            headers["idempotency-key"] = call.idempotency_key
        url = settings.url + call.target()
        timeout = call.default_timeout if settings.timeout is None else settings.timeout
        has_renewed = False
        while True:
            token = yield from self._token(call.scope, deadline)
            authorized = {**headers, "authorization": f"Bearer {token.reveal()}"}
            try:
                response = yield from self._send(
                    call.name,
                    lambda remaining: Request(
                        call.method,
                        url,
                        authorized,  # noqa: B023 (used before the next iteration)
                        body,
                        min(timeout, remaining),
                        call.is_repeatable,
                    ),
                    deadline,
                )
            except AuthenticationError:
                # The token may have been revoked, or its key removed.
                self._forget(call.scope, token)
                if has_renewed:
                    raise
                has_renewed = True
                continue
            is_sandbox = response.headers.get("x-project-mode") == "sandbox"
            if is_sandbox and not settings.allow_sandbox and not call.is_sandbox_only:
                raise SandboxRefusedError
            return response

    def _send(self, name: str, request: Callable[[float], Request], deadline: float | None) -> Flow[Response]:
        """Sends a request up to `1 + max_retries` times, and raises an error response as error."""
        attempt = 0
        while True:
            remaining = float("inf") if deadline is None else deadline - self.monotonic()
            if remaining <= 0:
                raise TransportTimeoutError(f"{name}: not completed within total_timeout")
            sent = request(remaining)
            error: ApiError | TransportError
            try:
                response = yield from send(sent)
            except TransportError as transport_error:
                error = transport_error
            else:
                if response.status < FIRST_ERROR_STATUS:
                    return response
                error = api_error(name, response)
            delay = self._retry_delay(error, attempt) if sent.is_repeatable or _is_unprocessed(error) else None
            if delay is None or (deadline is not None and self.monotonic() + delay >= deadline):
                raise error
            yield from sleep(delay)
            attempt += 1

    def _retry_delay(self, error: ApiError | TransportError, attempt: int) -> float | None:
        """Returns the seconds until the next attempt, or `None` if there is none."""
        if attempt >= self.settings.max_retries:
            return None
        # Full jitter: callers that failed together do not come back together.
        backoff = self.jitter() * min(MAX_BACKOFF_SECONDS, BASE_BACKOFF_SECONDS * 2.0**attempt)
        if isinstance(error, TransportError):
            return backoff
        if error.status == HTTP_CONFLICT and error.error_code == "idempotency_in_progress":
            return max(backoff, error.retry_after or 0.0)
        if error.status not in RETRIED_STATUSES:
            return None
        if error.retry_after is None:
            return backoff
        if error.retry_after > MAX_RETRY_AFTER_SECONDS:
            return None
        # A little later than asked for, so that waiting callers do not arrive all at once.
        return error.retry_after + self.jitter() * BASE_BACKOFF_SECONDS

    def _token(self, scope: str, deadline: float | None) -> Flow[Secret]:
        slot = self.tokens.slot(scope)
        found = self._cached(slot)
        if found is None:
            found = yield from locked(
                f"token {scope}", self._fetch_token(scope, slot, slot.requests, deadline), deadline
            )
        return found

    def _cached(self, slot: _TokenSlot) -> Secret | None:
        token = slot.token
        return token.text if token is not None and self.monotonic() < token.renew_at else None

    def _forget(self, scope: str, rejected: Secret) -> None:
        slot = self.tokens.slot(scope)
        # Another call may have renewed it already.
        if slot.token is not None and slot.token.text is rejected:
            slot.token = None

    def _fetch_token(self, scope: str, slot: _TokenSlot, seen: int, deadline: float | None) -> Flow[Secret]:
        """Requests a token. The lock of the scope is held; `seen` requests were complete before."""
        if (token := self._cached(slot)) is not None:
            return token
        if slot.requests != seen and slot.error is not None:
            # The request for which this call has waited failed. Another one would fail, too.
            raise slot.error
        try:
            response = yield from self._send(
                "POST /oauth2/token", lambda left: self._token_request(scope, left), deadline
            )
            granted = parse_object("POST /oauth2/token", response)
        except (ApiError, TransportError) as error:
            slot.requests += 1
            slot.error = error if deadline is None else None
            raise
        lifetime = float(granted["expires_in"])
        margin = min(MAX_RENEWAL_MARGIN_SECONDS, lifetime / 10)
        slot.token = _Token(Secret(granted["access_token"]), self.monotonic() + lifetime - margin)
        slot.requests += 1
        slot.error = None
        return slot.token.text

    def _token_request(self, scope: str, remaining: float) -> Request:
        settings = self.settings
        # RFC 6749, section 2.3.1: both are form-encoded before they are joined.
        pair = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret.reveal(), safe='')}"
        headers = {
            "authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json, application/problem+json",
            "user-agent": USER_AGENT,
        }
        form = urlencode({"grant_type": "client_credentials", "scope": scope}).encode()
        timeout = DEFAULT_TIMEOUT_SECONDS if settings.timeout is None else settings.timeout
        return Request("POST", settings.url + "/oauth2/token", headers, form, min(timeout, remaining))


def _is_unprocessed(error: ApiError | TransportError) -> bool:
    """The service counts requests before it processes them, so that any call can be repeated after a 429."""
    return isinstance(error, ApiError) and error.status == HTTP_TOO_MANY_REQUESTS


def parse_object(name: str, response: Response) -> dict[str, Any]:
    """Parses a JSON object."""
    try:
        body = json.loads(response.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        # For example a login page of a proxy.
        raise ApiError(
            name,
            status=response.status,
            detail="the response is not a JSON object",
            request_id=response.headers.get("x-request-id"),
        )
    return body
