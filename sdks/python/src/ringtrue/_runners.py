"""Runners of flows."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from typing import TYPE_CHECKING, TypeVar

from ._errors import TransportTimeoutError
from ._flow import Locked, Runner, Send

if TYPE_CHECKING:
    from ._flow import Effect, Flow
    from ._http import AsyncTransport, Transport

T = TypeVar("T")


def _lock_timeout() -> TransportTimeoutError:
    return TransportTimeoutError("not completed within total_timeout")


class BlockingRunner(Runner):
    """Runs flows in the calling thread."""

    is_async = False

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def run(self, flow: Flow[T]) -> T:
        """Runs a flow to its end."""
        try:
            effect = next(flow)
            while True:
                try:
                    result = self._perform(effect)
                except Exception as error:  # noqa: BLE001 (the flow decides)
                    effect = flow.throw(error)
                else:
                    effect = flow.send(result)
        except StopIteration as end:
            result_of_flow: T = end.value
            return result_of_flow

    def _perform(self, effect: Effect) -> object:
        if isinstance(effect, Send):
            return self.transport.send(effect.request)
        if isinstance(effect, Locked):
            with self._lock:
                lock = self._locks.setdefault(effect.name, threading.Lock())
            timeout = -1.0 if effect.deadline is None else max(0.0, effect.deadline - time.monotonic())
            if not lock.acquire(timeout=timeout):
                raise _lock_timeout()
            try:
                return self.run(effect.flow)
            finally:
                lock.release()
        time.sleep(effect.seconds)
        return None


class AsyncRunner(Runner):
    """Runs flows in the running event loop."""

    is_async = True

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport
        # An asyncio lock belongs to an event loop.
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]]
        self._locks = weakref.WeakKeyDictionary()

    async def run(self, flow: Flow[T]) -> T:
        """Runs a flow to its end."""
        try:
            effect = next(flow)
            while True:
                try:
                    result = await self._perform(effect)
                except Exception as error:  # noqa: BLE001 (the flow decides)
                    effect = flow.throw(error)
                else:
                    effect = flow.send(result)
        except StopIteration as end:
            result_of_flow: T = end.value
            return result_of_flow
        finally:
            flow.close()

    async def _perform(self, effect: Effect) -> object:
        if isinstance(effect, Send):
            return await self.transport.send(effect.request)
        if isinstance(effect, Locked):
            locks = self._locks.setdefault(asyncio.get_running_loop(), {})
            lock = locks.setdefault(effect.name, asyncio.Lock())
            timeout = None if effect.deadline is None else max(0.0, effect.deadline - time.monotonic())
            try:
                await asyncio.wait_for(lock.acquire(), timeout)
            except asyncio.TimeoutError:
                raise _lock_timeout() from None
            try:
                return await self.run(effect.flow)
            finally:
                lock.release()
        await asyncio.sleep(effect.seconds)
        return None
