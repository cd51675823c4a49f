"""Errors of the library. No text contains a secret, a token or a phone number."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._http import Response


class RingtrueError(Exception):
    """Base of all errors of this library."""


class ConfigurationError(RingtrueError, ValueError):
    """A setting is missing or invalid."""


class TransportError(RingtrueError):
    """No response: the connection failed, or it broke before the response was complete."""


class TransportTimeoutError(TransportError, TimeoutError):
    """No response in time."""


class ApiError(RingtrueError):
    """The service rejected a request."""

    def __init__(
        self,
        call: str,
        *,
        status: int,
        error_code: str | None = None,
        title: str | None = None,
        detail: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        text = f"{call}: {status}"
        text += f" {error_code}" if error_code else ""
        text += f": {detail or title}" if detail or title else ""
        text += f" (request id {request_id})" if request_id else ""
        super().__init__(text)
        self.call = call
        """Method and route of the request."""
        self.status = status
        """HTTP status."""
        self.error_code = error_code
        """Code for programs, such as `phone_number_invalid`. `None` if something in front of the service responded."""
        self.title = title
        """Short summary; the same for each occurrence."""
        self.detail = detail
        """Explanation of this occurrence, for developers."""
        self.request_id = request_id
        """`X-Request-Id`, which finds the request in the service's logs."""
        self.retry_after = retry_after
        """Seconds to wait before another attempt, if the service said so."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self.args, self.__dict__))


class AuthenticationError(ApiError):
    """401: the credential is wrong, expired or deleted."""


class NotFoundError(ApiError):
    """404: the resource does not exist."""


class RateLimitError(ApiError):
    """429: too many requests; `retry_after` has the seconds to wait."""


class CodeInvalidError(ApiError):
    """400 `code_invalid`: the code is wrong."""


class SandboxRefusedError(RingtrueError):
    """The project is in sandbox mode, whose results prove nothing, and the client does not have `allow_sandbox`."""

    def __init__(self) -> None:
        super().__init__("the project is in sandbox mode; take it live, or pass allow_sandbox=True in test systems")


class ForeignReturnError(RingtrueError):
    """The browser returned with a verification that its session did not create."""

    def __init__(self) -> None:
        super().__init__("the return belongs to a verification of another session")


def _restore(kind: type[ApiError], args: tuple[Any, ...], state: dict[str, Any]) -> ApiError:
    """Restores a pickled error, for example from a worker process."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def api_error(call: str, response: Response) -> ApiError:
    """Builds the error for a response."""
    try:
        problem = json.loads(response.body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}

    def text(name: str) -> str | None:
        value = problem.get(name)
        return value if isinstance(value, str) else None

    error_code = text("error_code") or text("error")
    kind = {401: AuthenticationError, 404: NotFoundError, 429: RateLimitError}.get(response.status, ApiError)
    if error_code == "code_invalid":
        kind = CodeInvalidError
    return kind(
        call,
        status=response.status,
        error_code=error_code,
        title=text("title"),
        detail=text("detail"),
        request_id=response.headers.get("x-request-id"),
        retry_after=parse_retry_after(response.headers.get("retry-after")),
    )


def parse_retry_after(value: str | None) -> float | None:
    """Parses `Retry-After`: seconds, or a date from a proxy."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:10])
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())
