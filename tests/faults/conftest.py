"""A portal of its own for fault tests: throwaway servers that may be killed, and the product's real processes.

Only what was started here is signalled, by its pid; what is frozen is always thawed.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from portal.embedded import start
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Scope
from tests.support.database import login
from tests.support.faults.portal import PREPARE, Portal
from tests.support.waiting import wait_until

logging.getLogger("httpx").setLevel(logging.WARNING)


@pytest.fixture
def seen(figure: Callable[[str], None], request: pytest.FixtureRequest) -> Callable[..., None]:
    """Notes figures that this test has seen, by their names."""

    def note(**figures: object) -> None:
        figure(f"{request.node.name}: " + ", ".join(f"{name} {value}" for name, value in figures.items()))

    return note


@pytest.fixture(scope="package")
def running_portal(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[Portal]:
    folder = tmp_path_factory.mktemp("faults")
    with (
        start(folder / "services", postgres_settings={"fsync": "off"}) as servers,
        django_db_blocker.unblock(),
    ):
        portal = Portal(servers, folder)
        portal.reconnect()
        with portal.process("-c", PREPARE, role="admin") as prepare:
            assert prepare.wait(120) == 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        web = {"WEB_CONCURRENCY": "1", "WEB_SOCKET": f"{folder}/web.sock"}
        with (
            portal.process("-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py", role="app", env=web),
            portal.process(
                "-m", "portal.proxy", role="app", env=web | {"HOST": "127.0.0.1", "PORT": str(port)}
            ),
        ):
            portal.tenant_id = portal.rows("SELECT id FROM tenancy_tenant")[0]["id"]
            with login("DATABASE_URL", url=servers.urls["DATABASE_URL"]), tenant_context(portal.tenant_id):
                _, key = create_api_key(name="faults", scopes=Scope.values)
            headers = {"Authorization": f"Bearer {key}"}
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30
            ) as portal.http:

                def answers() -> bool:
                    try:
                        return portal.http.get("/livez").status_code == 200
                    except httpx.TransportError:
                        return False

                wait_until(answers, seconds=30, what="the web answers")
                yield portal
        portal.owner.close()


@pytest.fixture
def portal(running_portal: Portal) -> Portal:
    """The running portal with an empty catalogue."""
    running_portal.clear()
    return running_portal
