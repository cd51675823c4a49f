"""Callbacks: verification of their signatures, typed events and de-duplication."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import inspect
import json
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Protocol, TypeVar, Union, cast
from urllib.parse import urlsplit

from ._errors import RingtrueError, TransportError
from ._flow import Awaitable, Blocking, Flavour, Resource, endpoint, locked, send
from ._http import AsyncHttpTransport, HttpTransport, Request
from ._rsa import parse_jwk
from ._runners import AsyncRunner, BlockingRunner
from ._session import USER_AGENT, Secret, Session, Settings, parse_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping

    from typing_extensions import TypeAlias

    from ._flow import Flow, Runner
    from ._rsa import PublicKey
    from .types import DiscoveryCallback, ReverseSmsCallback, SecureSnaCallback, VerificationCallback

    Headers: TypeAlias = Union[Mapping[str, str], Iterable[tuple[Union[str, bytes], Union[str, bytes]]]]

__all__ = [
    "MAX_BODY_BYTES",
    "AsyncCallbackVerifier",
    "AsyncSeenStore",
    "CallbackError",
    "CallbackEvent",
    "CallbackVerifier",
    "Callbacks",
    "DiscoveryEvent",
    "MemorySeenStore",
    "OtherEvent",
    "ReverseSmsEvent",
    "SecureSnaEvent",
    "SeenStore",
    "VerificationEvent",
    "process_once",
    "process_once_async",
]

T = TypeVar("T")

SIGNED_HEADERS = ("host", "date", "x-service-callback", "digest")
COMPONENTS = "(request-target) host date x-service-callback digest"
# A recorded callback can be replayed for this long; de-duplication detects it.
MAX_SKEW = timedelta(minutes=5)
# Callbacks have a few hundred bytes.
MAX_BODY_BYTES = 64 * 1024
# Anybody can send a callback with an unknown key id, and each would cause a request.
MIN_FETCH_INTERVAL_SECONDS = 30.0
MIN_RETRY_INTERVAL_SECONDS = 5.0
DEFAULT_MAX_AGE_SECONDS = 3600.0
MAX_MAX_AGE_SECONDS = 86400.0
HTTP_OK = 200
CALLBACK_TIMEOUT_SECONDS = 10.0


class CallbackError(RingtrueError):
    """A request is not a genuine callback, or cannot be verified now."""

    def __init__(self, reason: str, text: str, status: int = 401) -> None:
        super().__init__(text)
        self.reason = reason
        """Code for programs: `header_missing`, `authorization_malformed`, `algorithm_unsupported`,
        `components_missing`, `digest_mismatch`, `date_invalid`, `date_skewed`, `key_unknown`, `key_sandbox`,
        `key_mode_unknown`, `signature_invalid`, `body_too_large`, `body_invalid`, `keys_unavailable` or `in_progress`.
        """
        self.status = status
        """HTTP status to respond with. The service sends the callback again after any status but 200."""

    def __reduce__(self) -> tuple[type[CallbackError], tuple[str, str, int]]:
        return (type(self), (self.reason, str(self), self.status))


@dataclass(frozen=True)
class _Event:
    attempt: Optional[int]
    """Number of the delivery attempt, from 1. It is not signed."""
    is_sandbox: bool
    """Whether a sandbox project's check caused it. Such an event proves nothing about a number."""


@dataclass(frozen=True)
class ReverseSmsEvent(_Event):
    """A Reverse SMS check has ended."""

    check_id: str
    data: ReverseSmsCallback = field(repr=False)
    kind: Literal["reverse_sms"] = "reverse_sms"

    @property
    def id(self) -> str:
        """Identifies the event for de-duplication."""
        return self.check_id


@dataclass(frozen=True)
class SecureSnaEvent(_Event):
    """A Secure SNA check has ended."""

    check_id: str
    data: SecureSnaCallback = field(repr=False)
    kind: Literal["secure_sna"] = "secure_sna"

    @property
    def id(self) -> str:
        """Identifies the event for de-duplication."""
        return self.check_id


@dataclass(frozen=True)
class DiscoveryEvent(_Event):
    """A Discovery check has ended. Its data may contain a phone number."""

    check_id: str
    data: DiscoveryCallback = field(repr=False)
    kind: Literal["discovery"] = "discovery"

    @property
    def id(self) -> str:
        """Identifies the event for de-duplication."""
        return self.check_id


@dataclass(frozen=True)
class VerificationEvent(_Event):
    """A verification has ended."""

    verification_id: str
    data: VerificationCallback = field(repr=False)
    kind: Literal["verification"] = "verification"

    @property
    def id(self) -> str:
        """Identifies the event for de-duplication."""
        return self.verification_id


@dataclass(frozen=True)
class OtherEvent(_Event):
    """An event of a kind that this version of the library does not have."""

    id: str
    data: dict[str, Any] = field(repr=False)
    kind: str


CallbackEvent = Union[ReverseSmsEvent, SecureSnaEvent, DiscoveryEvent, VerificationEvent, OtherEvent]
"""An event, by `kind`."""


@dataclass(frozen=True)
class _Key:
    public_key: PublicKey
    use_mode: str | None


class KeySet:
    """The public keys at `/.well-known/jwks.json`."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.url = url
        self._monotonic = monotonic
        self._keys: dict[str, _Key] = {}
        self._fresh_until: float | None = None
        self._fetched_at: float | None = None
        self._has_failed = False

    def find(self, key_id: str) -> Flow[_Key]:
        """Returns a key. It fetches the keys if they are unknown or old, in one request for all callers."""
        if self._needs_fetch(key_id):
            yield from locked("keys", self._fetch(key_id))
        key = self._keys.get(key_id)
        if key is not None:
            return key
        if self._has_failed:
            raise CallbackError("keys_unavailable", "the callback keys cannot be fetched", 503)
        raise CallbackError("key_unknown", "unknown key id")

    def _needs_fetch(self, key_id: str) -> bool:
        now = self._monotonic()
        if self._fetched_at is not None:
            interval = MIN_RETRY_INTERVAL_SECONDS if self._has_failed else MIN_FETCH_INTERVAL_SECONDS
            if now - self._fetched_at < interval:
                return False
        return key_id not in self._keys or self._fresh_until is None or now >= self._fresh_until

    def _fetch(self, key_id: str) -> Flow[None]:
        if not self._needs_fetch(key_id):
            return  # another caller has fetched them
        self._fetched_at = self._monotonic()
        headers = {"accept": "application/json", "user-agent": USER_AGENT}
        try:
            # Half of the time that the service gives a receiver.
            response = yield from send(Request("GET", self.url, headers, None, CALLBACK_TIMEOUT_SECONDS / 2))
            keys = _parse_keys(response.body) if response.status == HTTP_OK else None
        except TransportError:
            keys = None
        self._has_failed = keys is None
        if keys is not None:
            # A failure keeps the keys: an outage does not stop callbacks that are under way.
            self._keys = keys
            self._fresh_until = self._monotonic() + _max_age(response.headers.get("cache-control", ""))


def _parse_keys(body: bytes) -> dict[str, _Key] | None:
    try:
        document = json.loads(body)
        jwks = [jwk for jwk in document["keys"] if isinstance(jwk, dict)]
    except (ValueError, TypeError, KeyError):
        return None
    keys: dict[str, _Key] = {}
    for jwk in jwks:
        public_key = parse_jwk(jwk)
        if public_key is not None and isinstance(jwk.get("kid"), str):
            use_mode = None if "use_mode" not in jwk else str(jwk["use_mode"])
            keys[jwk["kid"]] = _Key(public_key, use_mode)
    return keys


def _max_age(cache_control: str) -> float:
    found = re.search(r"(?:^|[\s,])max-age=(\d{1,9})", cache_control)
    return min(float(found[1]), MAX_MAX_AGE_SECONDS) if found else DEFAULT_MAX_AGE_SECONDS


class Callbacks(Resource[Flavour]):
    """Verifies callbacks."""

    def __init__(
        self,
        session: Session,
        runner: Runner,
        key_set: KeySet | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        super().__init__(session, runner)
        self._key_set = key_set or KeySet(f"{session.settings.url}/.well-known/jwks.json", session.monotonic)
        self._now = now

    @endpoint
    def verify(
        self, *, method: str, target: str, headers: Headers, body: bytes, public_url: str | None = None
    ) -> Flow[CallbackEvent]:
        """Verifies the signature of a callback, and returns its event.

        An event can belong to another client of the same deployment: ignore an id that you did not create.

        Args:
            method: Method of the request.
            target: Path and query, exactly as in the request line.
            headers: Headers as received: a mapping, or pairs of names and values.
            body: Raw body. Parsed and serialised JSON does not verify.
            public_url: Your callback URL. Pass it in production: a callback that was signed for another receiver could
                otherwise be replayed to you with its `Host` header. It is also needed if a proxy changes the host or
                the path. The query is taken from `target`.

        Raises:
            CallbackError: The request is not a genuine callback. Respond with its `status`.
        """
        return self._verify(method, target, headers, body, public_url)

    def _verify(
        self, method: str, target: str, headers: Headers, body: bytes, public_url: str | None
    ) -> Flow[CallbackEvent]:
        if len(body) > MAX_BODY_BYTES:
            raise CallbackError("body_too_large", "the body is too large", 413)
        lines = _lower_case(headers)
        host, date, kind, digest = (_single(lines, name) for name in SIGNED_HEADERS)
        parameters = _parse_authorization(_single(lines, "authorization"))
        if parameters["algorithm"] != "rsa-sha256":
            raise CallbackError("algorithm_unsupported", "unsupported algorithm; expected rsa-sha256")
        if parameters["headers"] != COMPONENTS:
            raise CallbackError("components_missing", "the signature does not cover the required headers")
        actual = "SHA-256=" + base64.b64encode(hashlib.sha256(body).digest()).decode()
        if not hmac.compare_digest(actual.encode(), digest.encode("utf-8", "surrogatepass")):
            raise CallbackError("digest_mismatch", "digest mismatch: the body differs from the signed one")
        if public_url is not None:
            host, target = _public_host_and_target(public_url, target)
        # Before the key, so that an old recording causes no request.
        self._check_date(date)
        key = yield from self._key_set.find(parameters["keyId"])
        is_sandbox = key.use_mode == "sandbox"
        if key.use_mode is not None and not (is_sandbox and self._session.settings.allow_sandbox):
            reason = "key_sandbox" if is_sandbox else "key_mode_unknown"
            raise CallbackError(reason, f"the key is for {key.use_mode} checks only")
        signed = (
            f"(request-target): {method.lower()} {target}\nhost: {host}\ndate: {date}\n"
            f"x-service-callback: {kind}\ndigest: {digest}"
        )
        try:
            signature = base64.b64decode(parameters["signature"], validate=True)
            # The service sends ASCII only.
            message = signed.encode("ascii")
        except (binascii.Error, UnicodeEncodeError):
            raise CallbackError("signature_invalid", "invalid signature") from None
        if not key.public_key.verify(signature, message):
            raise CallbackError("signature_invalid", "invalid signature")
        return _parse_event(kind, body, lines, is_sandbox=is_sandbox)

    def _check_date(self, text: str) -> None:
        try:
            date = parsedate_to_datetime(text)
            if date.tzinfo is None:
                date = date.replace(tzinfo=timezone.utc)
            skew = abs(self._now() - date)
        except (TypeError, ValueError, IndexError, OverflowError):
            raise CallbackError("date_invalid", "invalid date") from None
        if skew > MAX_SKEW:
            raise CallbackError("date_skewed", "the date differs too much from the current time")


def _lower_case(headers: Headers) -> list[tuple[str, str]]:
    items = getattr(headers, "items", None)
    pairs: Iterable[tuple[str | bytes, str | bytes]] = headers if items is None else items()  # type: ignore[assignment]
    return [(_text(name).lower(), _text(value)) for name, value in pairs]


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _single(lines: list[tuple[str, str]], wanted: str) -> str:
    values = [value for name, value in lines if name == wanted]
    if len(values) != 1:
        raise CallbackError("header_missing", f"expected one {wanted} header, found {len(values)}")
    return values[0]


def _parse_authorization(value: str) -> dict[str, str]:
    """Parses `Signature name="value",…`, with each of the four parameters exactly once."""
    pairs = re.findall(r'([A-Za-z]+)="([^"\\]*)"', value)
    parameters = dict(pairs)
    written = "Signature " + ",".join(f'{name}="{text}"' for name, text in pairs)
    if written != value or len(pairs) != len(parameters):
        raise CallbackError("authorization_malformed", "malformed Authorization header")
    if set(parameters) != {"keyId", "algorithm", "headers", "signature"}:
        raise CallbackError("authorization_malformed", "malformed Authorization header")
    return parameters


def _public_host_and_target(public_url: str, target: str) -> tuple[str, str]:
    url = urlsplit(public_url)
    default_port = {"http": 80, "https": 443}.get(url.scheme)
    if default_port is None or url.hostname is None:
        raise ValueError("public_url must be an http or https URL")
    hostname = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    host = hostname if url.port in (None, default_port) else f"{hostname}:{url.port}"
    query = target.partition("?")[2]
    return host, (url.path or "/") + (f"?{query}" if query else "")


def _id_of(kind: str, data: dict[str, object]) -> object:
    if kind == "verification":
        return data.get("verification_id")
    return data.get("check_id", data.get("verification_id"))


def _parse_event(kind: str, body: bytes, lines: list[tuple[str, str]], *, is_sandbox: bool) -> CallbackEvent:
    try:
        data = json.loads(body)
    except ValueError:
        data = None
    found = _id_of(kind, data) if isinstance(data, dict) else None
    if not isinstance(found, str):
        raise CallbackError("body_invalid", "the body is not that of a callback", 400)
    data = cast("Any", data)
    attempts = [value for name, value in lines if name == "x-service-callback-attempt"]
    attempt = int(attempts[0]) if len(attempts) == 1 and re.fullmatch(r"[0-9]{1,9}", attempts[0]) else None
    if kind == "reverse_sms":
        return ReverseSmsEvent(attempt, is_sandbox, found, data)
    if kind == "secure_sna":
        return SecureSnaEvent(attempt, is_sandbox, found, data)
    if kind == "discovery":
        return DiscoveryEvent(attempt, is_sandbox, found, data)
    if kind == "verification":
        return VerificationEvent(attempt, is_sandbox, found, data)
    return OtherEvent(attempt, is_sandbox, found, data, kind)


def _verifier_session(url: str | None, *, allow_sandbox: bool) -> Session:
    return Session(Settings(parse_url(url), "", Secret(""), CALLBACK_TIMEOUT_SECONDS, 0, allow_sandbox, None))


class CallbackVerifier(Callbacks[Blocking]):
    """Verifies callbacks in a program without a credential. Clients have the same as `callbacks`.

    Args:
        url: The service's URL; defaults to the environment variable `RINGTRUE_URL`.
        allow_sandbox: Whether to accept callbacks of sandbox projects; for test systems only.
        ssl_context: TLS settings, for example for a private certificate authority.
    """

    def __init__(
        self, url: str | None = None, *, allow_sandbox: bool = False, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        session = _verifier_session(url, allow_sandbox=allow_sandbox)
        self._transport = HttpTransport(ssl_context)
        super().__init__(session, BlockingRunner(self._transport))

    def close(self) -> None:
        """Closes idle connections. The verifier stays usable."""
        self._transport.close()


class AsyncCallbackVerifier(Callbacks[Awaitable]):
    """Verifies callbacks in an asyncio program without a credential. Clients have the same as `callbacks`.

    Args:
        url: The service's URL; defaults to the environment variable `RINGTRUE_URL`.
        allow_sandbox: Whether to accept callbacks of sandbox projects; for test systems only.
        ssl_context: TLS settings, for example for a private certificate authority.
    """

    def __init__(
        self, url: str | None = None, *, allow_sandbox: bool = False, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        session = _verifier_session(url, allow_sandbox=allow_sandbox)
        self._transport = AsyncHttpTransport(ssl_context)
        super().__init__(session, AsyncRunner(self._transport))

    async def close(self) -> None:
        """Closes idle connections. The verifier stays usable."""
        await self._transport.close()


class SeenStore(Protocol):
    """Remembers processed events by their id. Implement it with your database, so that all processes share it."""

    def seen(self, event_id: str) -> bool:
        """Whether the event was processed."""

    def mark(self, event_id: str) -> None:
        """Records that the event was processed."""


class AsyncSeenStore(Protocol):
    """As `SeenStore`, with coroutines."""

    async def seen(self, event_id: str) -> bool:
        """Whether the event was processed."""

    async def mark(self, event_id: str) -> None:
        """Records that the event was processed."""


class MemorySeenStore:
    """Remembers events in this process: the newest `max_entries`, for `ttl` seconds.

    The service retries for minutes, so the default of an hour is enough unless you have callbacks resent.
    """

    def __init__(
        self, *, ttl: float = 3600.0, max_entries: int = 10_000, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl = ttl
        self._max_entries = max_entries
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._expiry: OrderedDict[str, float] = OrderedDict()

    def seen(self, event_id: str) -> bool:
        """Whether the event was processed."""
        with self._lock:
            return self._expiry.get(event_id, 0.0) > self._monotonic()

    def mark(self, event_id: str) -> None:
        """Records that the event was processed."""
        with self._lock:
            self._expiry.pop(event_id, None)
            self._expiry[event_id] = self._monotonic() + self._ttl
            # Ordered by expiry, because all entries live equally long.
            while len(self._expiry) > self._max_entries or next(iter(self._expiry.values())) <= self._monotonic():
                self._expiry.popitem(last=False)


_in_progress: set[tuple[int, str]] = set()
_in_progress_lock = threading.Lock()


def _begin(store: object, event_id: str) -> tuple[int, str]:
    """Claims an event in this process: a retry may arrive while the first delivery is still being processed."""
    claim = (id(store), event_id)
    with _in_progress_lock:
        if claim in _in_progress:
            raise CallbackError("in_progress", "the callback is being processed", 503)
        _in_progress.add(claim)
    return claim


def _end(claim: tuple[int, str]) -> None:
    with _in_progress_lock:
        _in_progress.discard(claim)


def process_once(store: SeenStore, event: CallbackEvent, handler: Callable[[CallbackEvent], object]) -> bool:
    """Calls the handler unless the event was processed. Returns whether it did.

    If the handler raises an exception, the event stays unprocessed, and its next delivery calls the handler again.
    """
    claim = _begin(store, event.id)
    try:
        if store.seen(event.id):
            return False
        handler(event)
        store.mark(event.id)
        return True
    finally:
        _end(claim)


async def process_once_async(
    store: SeenStore | AsyncSeenStore, event: CallbackEvent, handler: Callable[[CallbackEvent], object]
) -> bool:
    """As `process_once`, for a handler and a store that may be coroutines."""
    claim = _begin(store, event.id)
    try:
        if await _resolve(store.seen(event.id)):
            return False
        await _resolve(handler(event))
        await _resolve(store.mark(event.id))
        return True
    finally:
        _end(claim)


async def _resolve(value: object) -> object:
    return await value if inspect.isawaitable(value) else value
