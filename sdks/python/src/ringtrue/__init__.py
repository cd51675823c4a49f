"""Server library for Ringtrue, the self-hosted phone number verification service.

`Ringtrue` is the blocking client, `AsyncRingtrue` the one for asyncio. Both have the same methods.
"""

from ._client import AsyncRingtrue, Ringtrue
from ._errors import (
    ApiError,
    AuthenticationError,
    CodeInvalidError,
    ConfigurationError,
    ForeignReturnError,
    NotFoundError,
    RateLimitError,
    RingtrueError,
    SandboxRefusedError,
    TransportError,
    TransportTimeoutError,
)
from ._flow import AsyncPager, Page, Pager
from ._http import AsyncTransport, Request, Response, Transport
from ._redeem import Outcome
from .callbacks import (
    AsyncCallbackVerifier,
    AsyncSeenStore,
    CallbackError,
    CallbackEvent,
    CallbackVerifier,
    DiscoveryEvent,
    MemorySeenStore,
    OtherEvent,
    ReverseSmsEvent,
    SecureSnaEvent,
    SeenStore,
    VerificationEvent,
    process_once,
    process_once_async,
)
from .search import Filter, field

__version__ = "1.0.0"

__all__ = [
    "ApiError",
    "AsyncCallbackVerifier",
    "AsyncPager",
    "AsyncRingtrue",
    "AsyncSeenStore",
    "AsyncTransport",
    "AuthenticationError",
    "CallbackError",
    "CallbackEvent",
    "CallbackVerifier",
    "CodeInvalidError",
    "ConfigurationError",
    "DiscoveryEvent",
    "Filter",
    "ForeignReturnError",
    "MemorySeenStore",
    "NotFoundError",
    "OtherEvent",
    "Outcome",
    "Page",
    "Pager",
    "RateLimitError",
    "Request",
    "Response",
    "ReverseSmsEvent",
    "Ringtrue",
    "RingtrueError",
    "SandboxRefusedError",
    "SecureSnaEvent",
    "SeenStore",
    "Transport",
    "TransportError",
    "TransportTimeoutError",
    "VerificationEvent",
    "field",
    "process_once",
    "process_once_async",
]
