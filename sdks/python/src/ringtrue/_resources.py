"""The products of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._flow import Flavour, Resource, endpoint, paged
from ._redeem import Outcome, redeem, redeem_code
from ._session import OPERATOR_TIMEOUT_SECONDS, Call, random_key
from .types import (
    CallbackResend,
    CreatedReverseSmsCheck,
    CreatedSilentCheck,
    CreatedVerification,
    DiscoveryCheck,
    Eligibility,
    ReverseSmsCheck,
    SandboxSmsFaults,
    SecureSnaCheck,
    SimSwapCheck,
    Verification,
    VerificationCallbackResend,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Callable, Literal

    from typing_extensions import Unpack

    from ._flow import Flow, Page
    from ._redeem import Query
    from .search import Filter
    from .types import (
        DiscoveryCheckInput,
        ReverseSmsCheckInput,
        SecureSnaCheckInput,
        SimSwapCheckInput,
        VerificationInput,
    )


def _create(route: str, scope: str, body: Mapping[str, Any], key: str | None, **more: Any) -> Call:  # noqa: ANN401 (of Call)
    # A repeated attempt with the same key creates nothing more.
    key = random_key() if key is None else key
    return Call("POST", route, scope, body=body, idempotency_key=key, **more)


def _search(search: Filter | str | None) -> dict[str, object]:
    return {"search": None if search is None else str(search)}


class Verifications(Resource[Flavour]):
    """Verifications: prove that a user has a number, by the best method available."""

    _ROUTE = "/v1/verifications"
    _ITEM = "/v1/verifications/{verification_id}"

    @endpoint
    def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[VerificationInput]
    ) -> Flow[CreatedVerification]:
        """Creates a verification. Store its `verification_id` in the session, and redirect the browser to its `url`.

        Args:
            idempotency_key: Identifies this creation, so that repeating it has no effect. By default a random one,
                which covers the retries of this call.
            **body: `phone_number` and the other members of `VerificationInput`.
        """
        return self._session.call(_create(self._ROUTE, "verification", body, idempotency_key), CreatedVerification)

    @endpoint
    def get(self, verification_id: str) -> Flow[Verification]:
        """Returns a verification."""
        return self._session.call(self._call("GET", verification_id), Verification)

    @paged
    def list(
        self, search: Filter | str | None = None, *, size: int | None = None
    ) -> Callable[[int], Flow[Page[Verification]]]:
        """Lists verifications, newest first. `size` is the number of items per request, 1 to 100."""
        call = Call("GET", self._ROUTE, "verification", query=_search(search))
        return self._session.pages(call, Verification, size)

    @endpoint
    def next(
        self,
        verification_id: str,
        *,
        method: Literal["secure_sna", "reverse_sms"] | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Verification]:
        """Gives up the current step, and starts the next method. With `method`, only if that is the current one."""
        call = self._call(
            "POST",
            verification_id,
            "/next",
            body={} if method is None else {"method": method},
            idempotency_key=random_key() if idempotency_key is None else idempotency_key,
        )
        return self._session.call(call, Verification)

    @endpoint
    def cancel(self, verification_id: str) -> Flow[Verification]:
        """Ends an open verification. One that has ended is returned unchanged: read its `status`."""
        return self._session.call(self._call("POST", verification_id, "/cancel"), Verification)

    @endpoint
    def redeem_code(self, verification_id: str, code: str) -> Flow[Verification]:
        """Redeems a code that your app brought. For a return of the browser, use `redeem`."""
        return redeem_code(self._session, verification_id, code)

    @endpoint
    def redeem(self, session: str | Mapping[str, Any] | None, query: Query) -> Flow[Outcome]:
        """Handles the return of the browser to your `redirect_url`.

        It rejects a return that belongs to another session, redeems the code, and waits up to 15 seconds for an answer
        about the SIM. Only `verified` of the outcome proves the number.

        Args:
            session: The `verification_id` that your app stored in the user's session, or what `create` returned.
            query: The query of the return URL, as your framework has it: a mapping, a query string or the whole URL.

        Raises:
            ForeignReturnError: The session has no verification, or another one. Nothing was sent.
            SandboxRefusedError: The project is in sandbox mode, and the client does not have `allow_sandbox`.
        """
        return redeem(self._session, session, query)

    @endpoint
    def resend_callback(
        self, verification_id: str, *, idempotency_key: str | None = None
    ) -> Flow[VerificationCallbackResend]:
        """Has the callback sent again."""
        key = random_key() if idempotency_key is None else idempotency_key
        call = self._call("POST", verification_id, "/callback-resends", idempotency_key=key)
        return self._session.call(call, VerificationCallbackResend)

    def _call(self, method: str, verification_id: str, suffix: str = "", **more: Any) -> Call:  # noqa: ANN401 (of Call)
        return Call(method, self._ITEM + suffix, "verification", {"verification_id": verification_id}, **more)


class _Checks(Resource[Flavour]):
    """Checks of a product."""

    _ROUTE: str
    _SCOPE: str

    def _call(self, method: str, check_id: str, suffix: str = "", **more: Any) -> Call:  # noqa: ANN401 (of Call)
        return Call(method, self._ROUTE + "/{check_id}" + suffix, self._SCOPE, {"check_id": check_id}, **more)

    def _list(self, search: Filter | str | None) -> Call:
        return Call("GET", self._ROUTE, self._SCOPE, query=_search(search))


class _ChecksWithCallback(_Checks[Flavour]):
    @endpoint
    def resend_callback(self, check_id: str, *, idempotency_key: str | None = None) -> Flow[CallbackResend]:
        """Has the callback sent again."""
        key = random_key() if idempotency_key is None else idempotency_key
        call = self._call("POST", check_id, "/callback-resends", idempotency_key=key)
        return self._session.call(call, CallbackResend)


class ReverseSms(_ChecksWithCallback[Flavour]):
    """Reverse SMS: the user sends a prepared text from the number."""

    _ROUTE = "/v1/number-verification/reverse-sms-checks"
    _SCOPE = "reverse_sms"

    @endpoint
    def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[ReverseSmsCheckInput]
    ) -> Flow[CreatedReverseSmsCheck]:
        """Creates a check. Pass `receiver_phone_number` and `expected_sms_body` to the app.

        Args:
            idempotency_key: Identifies this creation. By default a random one.
            **body: `phone_number` and the other members of `ReverseSmsCheckInput`.
        """
        return self._session.call(_create(self._ROUTE, self._SCOPE, body, idempotency_key), CreatedReverseSmsCheck)

    @endpoint
    def get(self, check_id: str) -> Flow[ReverseSmsCheck]:
        """Returns a check."""
        return self._session.call(self._call("GET", check_id), ReverseSmsCheck)

    @paged
    def list(
        self, search: Filter | str | None = None, *, size: int | None = None
    ) -> Callable[[int], Flow[Page[ReverseSmsCheck]]]:
        """Lists checks, newest first. `size` is the number of items per request, 1 to 100."""
        return self._session.pages(self._list(search), ReverseSmsCheck, size)


class SecureSna(_ChecksWithCallback[Flavour]):
    """Secure SNA: the operator confirms the number of the user's device."""

    _ROUTE = "/v1/number-verification/secure-sna-checks"
    _SCOPE = "secure_sna"

    @endpoint
    def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[SecureSnaCheckInput]
    ) -> Flow[CreatedSilentCheck]:
        """Creates a check. Pass its `url` to the app, which opens it over mobile data.

        Args:
            idempotency_key: Identifies this creation. By default a random one.
            **body: `phone_number` and the other members of `SecureSnaCheckInput`.
        """
        return self._session.call(_create(self._ROUTE, self._SCOPE, body, idempotency_key), CreatedSilentCheck)

    @endpoint
    def get(self, check_id: str) -> Flow[SecureSnaCheck]:
        """Returns a check."""
        return self._session.call(self._call("GET", check_id), SecureSnaCheck)

    @paged
    def list(
        self, search: Filter | str | None = None, *, size: int | None = None
    ) -> Callable[[int], Flow[Page[SecureSnaCheck]]]:
        """Lists checks, newest first. `size` is the number of items per request, 1 to 100."""
        return self._session.pages(self._list(search), SecureSnaCheck, size)

    @endpoint
    def redeem_code(self, check_id: str, code: str) -> Flow[SecureSnaCheck]:
        """Redeems the code that the app brought. The check has its `match` then."""
        # A code can be used once, so a repeated attempt could fail a user who succeeded.
        call = self._call("POST", check_id, body={"code": code}, is_repeatable=False)
        return self._session.call(call, SecureSnaCheck)


class Discovery(_ChecksWithCallback[Flavour]):
    """Discovery: the operator returns the number of the user's device."""

    _ROUTE = "/v1/number-verification/discovery-checks"
    _SCOPE = "discovery"

    @endpoint
    def create(
        self, *, idempotency_key: str | None = None, **body: Unpack[DiscoveryCheckInput]
    ) -> Flow[CreatedSilentCheck]:
        """Creates a check. Pass its `url` to the app, which opens it over mobile data.

        Args:
            idempotency_key: Identifies this creation. By default a random one.
            **body: The members of `DiscoveryCheckInput`; all are optional.
        """
        return self._session.call(_create(self._ROUTE, self._SCOPE, body, idempotency_key), CreatedSilentCheck)

    @endpoint
    def get(self, check_id: str) -> Flow[DiscoveryCheck]:
        """Returns a check."""
        return self._session.call(self._call("GET", check_id), DiscoveryCheck)

    @paged
    def list(
        self, search: Filter | str | None = None, *, size: int | None = None
    ) -> Callable[[int], Flow[Page[DiscoveryCheck]]]:
        """Lists checks, newest first. `size` is the number of items per request, 1 to 100."""
        return self._session.pages(self._list(search), DiscoveryCheck, size)

    @endpoint
    def redeem_code(self, check_id: str, code: str) -> Flow[DiscoveryCheck]:
        """Redeems the code that the app brought. The check has its `phone_number` then."""
        call = self._call("POST", check_id, body={"code": code}, is_repeatable=False)
        return self._session.call(call, DiscoveryCheck)


class SimSwap(_Checks[Flavour]):
    """SIM Swap: whether a number's SIM card was changed recently."""

    _ROUTE = "/v1/sim-swap-checks"
    _SCOPE = "sim_swap"

    @endpoint
    def create(self, *, idempotency_key: str | None = None, **body: Unpack[SimSwapCheckInput]) -> Flow[SimSwapCheck]:
        """Asks the operator, and returns the concluded check. This may take 15 seconds.

        Args:
            idempotency_key: Identifies this creation. By default a random one.
            **body: `phone_number` and the other members of `SimSwapCheckInput`.
        """
        call = _create(self._ROUTE, self._SCOPE, body, idempotency_key, default_timeout=OPERATOR_TIMEOUT_SECONDS)
        return self._session.call(call, SimSwapCheck)

    @endpoint
    def get(self, check_id: str) -> Flow[SimSwapCheck]:
        """Returns a check."""
        return self._session.call(self._call("GET", check_id), SimSwapCheck)

    @paged
    def list(
        self, search: Filter | str | None = None, *, size: int | None = None
    ) -> Callable[[int], Flow[Page[SimSwapCheck]]]:
        """Lists checks, newest first. `size` is the number of items per request, 1 to 100."""
        return self._session.pages(self._list(search), SimSwapCheck, size)


class EligibilityLookups(Resource[Flavour]):
    """Eligibility: the products that are available for a number or a device."""

    @endpoint
    def of_number(self, phone_number: str) -> Flow[Eligibility]:
        """Returns the products for a number in E.164 format."""
        route = "/v1/eligibility/phone-numbers/{phone_number}"
        return self._session.call(Call("GET", route, "eligibility", {"phone_number": phone_number}), Eligibility)

    @endpoint
    def of_address(self, ip: str) -> Flow[Eligibility]:
        """Returns the products for a device's IP address."""
        return self._session.call(
            Call("GET", "/v1/eligibility/device-ips/{ip}", "eligibility", {"ip": ip}), Eligibility
        )


class Sandbox(Resource[Flavour]):
    """The simulated operator of sandbox projects."""

    @endpoint
    def send_sms(self, *, from_: str, to: str, body: str, faults: SandboxSmsFaults | None = None) -> Flow[None]:
        """Sends an SMS from a simulated handset. `to` and `body` are those that a Reverse SMS check expects."""
        message = {"from": from_, "to": to, "body": body, **({} if faults is None else {"faults": faults})}
        # It has no idempotency key: a repetition would send a second SMS.
        call = Call(
            "POST",
            "/v1/sandbox/inbound-sms",
            "reverse_sms",
            body=message,
            is_repeatable=False,
            is_sandbox_only=True,
        )
        return self._session.call_without_result(call)
