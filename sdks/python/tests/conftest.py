from __future__ import annotations

from typing import TYPE_CHECKING

import django.conf
import pytest
from support import UNLIMITED, Clients, Loop, Receiver, Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringtrue import Ringtrue


django.conf.settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF="test_adapters", SECRET_KEY="for tests", MIDDLEWARE=[])


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("ringtrue"), **UNLIMITED) as service:
        yield service


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(params=["blocking", "asyncio"])
def clients(request: pytest.FixtureRequest, loop: Loop) -> Iterator[Clients]:
    """Tests with this fixture run with both clients."""
    clients = Clients(request.param, loop)
    yield clients
    clients.close()


@pytest.fixture
def client(clients: Clients, service: Service) -> Ringtrue:
    """A client of the sandbox project."""
    return clients(**service.credential())


@pytest.fixture
def manager(clients: Clients, service: Service) -> Ringtrue:
    """A client of the workspace."""
    return clients(**service.workspace_credential())


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver
