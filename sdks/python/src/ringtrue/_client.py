"""The clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from ._flow import Awaitable, Blocking, Flavour
from ._http import AsyncHttpTransport, HttpTransport
from ._management import Management
from ._resources import (
    Discovery,
    EligibilityLookups,
    ReverseSms,
    Sandbox,
    SecureSna,
    SimSwap,
    Verifications,
)
from ._runners import AsyncRunner, BlockingRunner
from ._session import Session, parse_settings
from .callbacks import Callbacks

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    from typing_extensions import Self

    from ._flow import Runner
    from ._http import AsyncTransport, Transport


class _Client(Generic[Flavour]):
    """What both clients have."""

    verifications: Verifications[Flavour]
    """Verifications."""
    reverse_sms: ReverseSms[Flavour]
    """Reverse SMS checks."""
    secure_sna: SecureSna[Flavour]
    """Secure SNA checks."""
    discovery: Discovery[Flavour]
    """Discovery checks."""
    sim_swap: SimSwap[Flavour]
    """SIM Swap checks."""
    eligibility: EligibilityLookups[Flavour]
    """Available products."""
    sandbox: Sandbox[Flavour]
    """The simulated operator."""
    management: Management[Flavour]
    """Management, with a workspace's credential."""
    callbacks: Callbacks[Flavour]
    """Verification of callbacks."""

    def _build(self, session: Session, runner: Runner, callbacks: Callbacks[Flavour] | None = None) -> None:
        self._session = session
        self._runner = runner
        self.verifications = Verifications(session, runner)
        self.reverse_sms = ReverseSms(session, runner)
        self.secure_sna = SecureSna(session, runner)
        self.discovery = Discovery(session, runner)
        self.sim_swap = SimSwap(session, runner)
        self.eligibility = EligibilityLookups(session, runner)
        self.sandbox = Sandbox(session, runner)
        self.management = Management(session, runner)
        # The keys are cached there.
        self.callbacks = callbacks or Callbacks(session, runner)

    def with_options(
        self,
        *,
        timeout: float | None = None,
        max_retries: int | None = None,
        total_timeout: float | None = None,
    ) -> Self:
        """Returns a client with other options that shares this one's tokens, connections and keys.

        For example `client.with_options(total_timeout=3).verifications.create(…)`.
        """
        options = {"timeout": timeout, "max_retries": max_retries, "total_timeout": total_timeout}
        other = object.__new__(type(self))
        changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        other._build(self._session.with_settings(**changes), self._runner, self.callbacks)
        return other

    def __repr__(self) -> str:
        settings = self._session.settings
        return f"{type(self).__name__}(url={settings.url!r}, client_id={settings.client_id!r})"


class Ringtrue(_Client[Blocking]):
    """Client whose methods block. Share one between all threads.

    Args:
        url: The service's URL; defaults to the environment variable `RINGTRUE_URL`.
        client_id: Defaults to `RINGTRUE_CLIENT_ID`.
        client_secret: Defaults to `RINGTRUE_CLIENT_SECRET`.
        timeout: Seconds for each attempt of a request. By default 10, or 20 for SIM Swap checks and redemptions of a
            verification's code, during which the service asks an operator.
        max_retries: Number of further attempts after a failure.
        total_timeout: Seconds for a call with all its attempts and waits; by default not limited.
        allow_sandbox: Whether to accept results and callbacks of sandbox projects, which prove nothing about a number;
            for test systems only.
        ssl_context: TLS settings, for example for a private certificate authority.
        transport: Another HTTP library.
    """

    def __init__(
        self,
        url: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        timeout: float | None = None,
        max_retries: int = 2,
        total_timeout: float | None = None,
        allow_sandbox: bool = False,
        ssl_context: ssl.SSLContext | None = None,
        transport: Transport | None = None,
    ) -> None:
        settings = parse_settings(
            url,
            client_id,
            client_secret,
            timeout=timeout,
            max_retries=max_retries,
            allow_sandbox=allow_sandbox,
            total_timeout=total_timeout,
        )
        self._build(Session(settings), BlockingRunner(transport or HttpTransport(ssl_context)))

    def close(self) -> None:
        """Closes idle connections. The client stays usable."""
        self._runner.transport.close()  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncRingtrue(_Client[Awaitable]):
    """Client whose methods are coroutines. Its lists are for `async for`.

    Args:
        url: The service's URL; defaults to the environment variable `RINGTRUE_URL`.
        client_id: Defaults to `RINGTRUE_CLIENT_ID`.
        client_secret: Defaults to `RINGTRUE_CLIENT_SECRET`.
        timeout: Seconds for each attempt of a request. By default 10, or 20 for SIM Swap checks and redemptions of a
            verification's code, during which the service asks an operator.
        max_retries: Number of further attempts after a failure.
        total_timeout: Seconds for a call with all its attempts and waits; by default not limited.
        allow_sandbox: Whether to accept results and callbacks of sandbox projects, which prove nothing about a number;
            for test systems only.
        ssl_context: TLS settings, for example for a private certificate authority.
        transport: Another HTTP library.
    """

    def __init__(
        self,
        url: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        timeout: float | None = None,
        max_retries: int = 2,
        total_timeout: float | None = None,
        allow_sandbox: bool = False,
        ssl_context: ssl.SSLContext | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        settings = parse_settings(
            url,
            client_id,
            client_secret,
            timeout=timeout,
            max_retries=max_retries,
            allow_sandbox=allow_sandbox,
            total_timeout=total_timeout,
        )
        self._build(Session(settings), AsyncRunner(transport or AsyncHttpTransport(ssl_context)))

    async def close(self) -> None:
        """Closes idle connections. The client stays usable."""
        await self._runner.transport.close()  # type: ignore[attr-defined]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
