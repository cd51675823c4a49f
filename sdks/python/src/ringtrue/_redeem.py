"""Redemption of a verification when the browser returns."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional, Union
from urllib.parse import parse_qsl, urlsplit

from ._errors import ApiError, CodeInvalidError, ForeignReturnError
from ._flow import sleep
from ._session import OPERATOR_TIMEOUT_SECONDS, Call
from .types import Verification

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import TypeAlias

    from ._flow import Flow
    from ._session import Session

    Query: TypeAlias = Union[str, bytes, Mapping[str, object], Iterable[tuple[str, str]]]

OPEN_STATUSES = frozenset({"ACCEPTED", "PENDING"})
# The operator answers within 15 seconds, or is given up.
SIM_ANSWER_SECONDS = 15.0
POLL_INTERVAL_SECONDS = 0.5
# Longer than any code. The service would reject it for the size of the body.
MAX_CODE_LENGTH = 512


@dataclass(frozen=True)
class Outcome:
    """Result of a redemption."""

    verified: bool
    """Whether the user has proved the number. Nothing else proves it."""
    open: bool
    """Whether the verification goes on: send the browser to `url`."""
    url: Optional[str] = field(repr=False)
    """The verification's page, if `open`."""
    reason: Optional[str]
    """Why the number is not verified: `no_match`, `expired`, `given_up`, `wrong_number`, `cancelled`,
    `methods_exhausted`, `internal_error`, `code_invalid` or `code_missing`. More reasons may be added.
    """
    verification: Verification = field(repr=False)
    """The verification as the service has it."""


def redeem(session: Session, created: str | Mapping[str, object] | None, query: Query) -> Flow[Outcome]:
    """Redeems the code of a return. See `Verifications.redeem`."""
    expected = created if created is None or isinstance(created, str) else created.get("verification_id")
    parameters = parse_query(query)
    returned = parameters.get("verification_id", "")
    if not isinstance(expected, str) or not expected:
        raise ForeignReturnError
    if not hmac.compare_digest(expected.encode(), returned.encode("utf-8", "surrogatepass")):
        raise ForeignReturnError
    code = parameters.get("code", "")
    if not code:
        # The `error` of the query comes from the browser: the verification has the reason.
        verification = yield from _await_sim_answer(session, (yield from _get(session, expected)))
        return _outcome(verification, unproved="code_missing")
    if len(code) > MAX_CODE_LENGTH or not code.isascii():
        return _rejected((yield from _get(session, expected)))
    try:
        verification = yield from redeem_code(session, expected, code)
    except CodeInvalidError:
        return _rejected((yield from _get(session, expected)))
    except ApiError as error:
        if error.error_code in ("check_not_ready", "check_already_completed", "check_expired"):
            verification = yield from _await_sim_answer(session, (yield from _get(session, expected)))
            return _outcome(verification, unproved="code_invalid")
        raise
    return _outcome((yield from _await_sim_answer(session, verification)))


def _await_sim_answer(session: Session, verification: Verification) -> Flow[Verification]:
    """Reads the verification again while only the operator's answer about a SIM change is missing."""
    deadline = session.monotonic() + SIM_ANSWER_SECONDS
    while _awaits_sim_answer(verification) and session.monotonic() < deadline:
        yield from sleep(POLL_INTERVAL_SECONDS)
        verification = yield from _get(session, verification["verification_id"])
    return verification


_ROUTE = "/v1/verifications/{verification_id}"


def redeem_code(session: Session, verification_id: str, code: str) -> Flow[Verification]:
    """Redeems a code. The call can be repeated: the service returns the same result."""
    call = Call(
        "POST",
        _ROUTE,
        "verification",
        {"verification_id": verification_id},
        body={"code": code},
        default_timeout=OPERATOR_TIMEOUT_SECONDS,
    )
    return session.call(call, Verification)


def _get(session: Session, verification_id: str) -> Flow[Verification]:
    return session.call(Call("GET", _ROUTE, "verification", {"verification_id": verification_id}), Verification)


def _awaits_sim_answer(verification: Verification) -> bool:
    """A match is followed by the question about the SIM only."""
    has_match = any(step.get("match") is True and step["method"] != "sim_swap" for step in verification["steps"])
    return verification["status"] in OPEN_STATUSES and has_match


def _outcome(verification: Verification, unproved: str | None = None) -> Outcome:
    """The outcome by the verification. `unproved` is the reason if no code proves a match."""
    status = verification["status"]
    if status in OPEN_STATUSES:
        return Outcome(verified=False, open=True, url=verification.get("url"), reason=None, verification=verification)
    is_match = status == "COMPLETED" and verification.get("match") is True
    reason: str | None
    if is_match:
        reason = unproved
    elif status == "COMPLETED":
        reason = "no_match"
    elif status == "EXPIRED":
        reason = "expired"
    else:
        reason = verification.get("error_code", "internal_error")
    return Outcome(verified=reason is None, open=False, url=None, reason=reason, verification=verification)


def _rejected(verification: Verification) -> Outcome:
    return Outcome(verified=False, open=False, url=None, reason="code_invalid", verification=verification)


def parse_query(query: Query) -> dict[str, str]:
    """Returns the parameters of a return URL. A repeated parameter counts as absent: it is ambiguous."""
    pairs: list[tuple[str, str]] = []
    if isinstance(query, bytes):
        query = query.decode("utf-8", "replace")
    if isinstance(query, str):
        # A query has no `?`, because the service encodes it.
        is_url = "?" in query or "://" in query or query.startswith("/")
        text = urlsplit(query).query if is_url else query
        pairs = parse_qsl(text, keep_blank_values=True)
    else:
        for name, value in _items(query):
            values = value if isinstance(value, (list, tuple)) else [value]
            pairs += [(str(name), str(each)) for each in values]
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def _items(query: Mapping[str, object] | Iterable[tuple[str, str]]) -> Iterable[tuple[str, object]]:
    # Werkzeug and Django have `lists`, Starlette has `multi_items`: `items` of these shows one value only.
    for method in ("lists", "multi_items", "items"):
        items = getattr(query, method, None)
        if items is not None:
            found: Iterable[tuple[str, object]] = items()
            return found
    return query  # type: ignore[return-value]
