"""Flows: the library's logic without input and output.

A flow is a generator. It yields an effect wherever it has to send a request, wait or take a lock, and gets the result
back. `Ringtrue` runs flows with blocking calls and `AsyncRingtrue` with asyncio, so both behave the same: tokens,
retries, pages, redemption and callbacks are written once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar, Union, cast, overload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Generator, Iterator

    from typing_extensions import Concatenate, ParamSpec, TypeAlias

    from ._http import Request, Response
    from ._session import Session

    P = ParamSpec("P")
    R = TypeVar("R", bound="Resource[Any]")
else:
    # Type parameters of generic classes are evaluated, and Python 3.9 has no `ParamSpec`.
    P = TypeVar("P")

T = TypeVar("T")
Flavour = TypeVar("Flavour", bound="Union[Blocking, Awaitable]")


class Blocking:
    """Flavour of a resource whose methods return their result."""


class Awaitable:
    """Flavour of a resource whose methods are coroutines."""


@dataclass(frozen=True)
class Send:
    """Sends a request. The result is its response, or a `TransportError` is thrown into the flow."""

    request: Request


@dataclass(frozen=True)
class Sleep:
    """Waits."""

    seconds: float


@dataclass(frozen=True)
class Locked:
    """Runs a flow while no other flow holds the lock with this name. The result is the flow's."""

    name: str
    flow: Flow[object]
    deadline: Optional[float]


if TYPE_CHECKING:
    Effect: TypeAlias = Union[Send, Sleep, Locked]
    Flow: TypeAlias = Generator[Effect, object, T]


def send(request: Request) -> Flow[Response]:
    """Sends a request."""
    return (yield Send(request))  # type: ignore[return-value]


def sleep(seconds: float) -> Flow[None]:
    """Waits."""
    yield Sleep(seconds)


def locked(name: str, flow: Flow[T], deadline: float | None = None) -> Flow[T]:
    """Runs a flow under a lock. `deadline`, in the session's time, bounds the wait for the lock."""
    return (yield Locked(name, flow, deadline))  # type: ignore[return-value]


class Runner:
    """Performs the effects of flows. Subclasses block or await."""

    is_async: bool

    def run(self, flow: Flow[T]) -> Any:  # noqa: ANN401 (a result, or a coroutine of it)
        """Runs a flow to its end."""
        raise NotImplementedError


class Resource(Generic[Flavour]):
    """A part of the client."""

    def __init__(self, session: Session, runner: Runner) -> None:
        self._session = session
        self._runner = runner


class endpoint(Generic[P, T]):  # noqa: N801 (a decorator)
    """Makes a method that returns a flow into one that runs it: a plain method or a coroutine, by the flavour."""

    def __init__(self, function: Callable[Concatenate[R, P], Flow[T]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: Resource[Blocking], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Resource[Awaitable], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, instance: Resource[Any] | None, owner: type) -> Callable[..., Any]:
        function = self.function
        if instance is None:
            return function

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 (see Runner.run)
            return instance._runner.run(function(cast("Any", instance), *args, **kwargs))  # noqa: SLF001 (of its own resource)

        return run


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list, newest item first."""

    items: list[T]
    number: int
    """This page's number, from 1."""
    size: int
    """Items per page."""
    total_pages: int
    total_elements: int


class PageSource(Generic[T]):
    """Fetches the pages of a list."""

    def __init__(self, runner: Runner, fetch: Callable[[int], Flow[Page[T]]]) -> None:
        self._runner = runner
        self._fetch = fetch


class Pager(PageSource[T]):
    """A list. Iterate over it to get the items of all pages, which are fetched as needed.

    New items appear on the first page. If some are created while you iterate, an item can appear twice.
    """

    def page(self, number: int = 1) -> Page[T]:
        """Returns one page with the list's totals. A page past the end is empty."""
        page: Page[T] = self._runner.run(self._fetch(number))
        return page

    def __iter__(self) -> Iterator[T]:
        page = self.page()
        yield from page.items
        while page.items and page.number < page.total_pages:
            page = self.page(page.number + 1)
            yield from page.items


class AsyncPager(PageSource[T]):
    """A list. Iterate over it with `async for` to get the items of all pages, which are fetched as needed.

    New items appear on the first page. If some are created while you iterate, an item can appear twice.
    """

    async def page(self, number: int = 1) -> Page[T]:
        """Returns one page with the list's totals. A page past the end is empty."""
        page: Page[T] = await self._runner.run(self._fetch(number))
        return page

    async def __aiter__(self) -> AsyncIterator[T]:
        page = await self.page()
        for item in page.items:
            yield item
        while page.items and page.number < page.total_pages:
            page = await self.page(page.number + 1)
            for item in page.items:
                yield item


class paged(Generic[P, T]):  # noqa: N801 (a decorator)
    """Makes a method that returns a function for fetching a page into one that returns a pager."""

    def __init__(self, function: Callable[Concatenate[R, P], Callable[[int], Flow[Page[T]]]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: Resource[Blocking], owner: type) -> Callable[P, Pager[T]]: ...
    @overload
    def __get__(self, instance: Resource[Awaitable], owner: type) -> Callable[P, AsyncPager[T]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, instance: Resource[Any] | None, owner: type) -> Callable[..., Any]:
        function = self.function
        if instance is None:
            return function
        runner = instance._runner  # noqa: SLF001 (of its own resource)
        pager: type[PageSource[T]] = AsyncPager if runner.is_async else Pager

        @functools.wraps(function)
        def pages(*args: P.args, **kwargs: P.kwargs) -> PageSource[T]:
            return pager(runner, function(cast("Any", instance), *args, **kwargs))

        return pages
