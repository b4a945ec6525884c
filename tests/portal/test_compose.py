"""docker-compose.yml against the list of processes that `make up` runs. No engine runs here, so its text is checked."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from portal.embedded import ROOT
from portal.processes import PREPARE, PROCESSES
from portal.proxy import SETTINGS

COMPOSE = ROOT / "docker-compose.yml"
SECRETS = (
    "PORTAL_ADMIN_PASSWORD",
    "PORTAL_WEB_PASSWORD",
    "PORTAL_WORKER_PASSWORD",
    "PORTAL_BROKER_PASSWORD",
    "SECRET_KEY",
)
DATABASE_OF_ROLE: dict[str | None, set[str]] = {
    None: set(),
    "app": {"DATABASE_URL"},
    "worker": {"DATABASE_WORKER_URL"},
    "admin": {"DATABASE_URL", "DATABASE_WORKER_URL", "DATABASE_ADMIN_URL"},
}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return dict(parsed["services"])


@pytest.mark.parametrize("process", [PREPARE, *PROCESSES], ids=lambda process: process.name)
def test_commands_and_roles_are_those_of_make_up(services: dict[str, Any], process: Any) -> None:
    service = services[process.name]
    assert tuple(service["command"]) == process.command
    assert service["environment"].get("PORTAL_DB_ROLE") == process.role
    given = {name for name in service["environment"] if name.startswith("DATABASE")}
    assert given == DATABASE_OF_ROLE[process.role], "a service gets the logins of its role and no other"


def test_the_proxy_gets_its_own_settings_and_no_secret_S19(services: dict[str, Any]) -> None:
    proxy, web = services["proxy"], services["web"]
    assert set(proxy["environment"]) <= set(SETTINGS)
    assert proxy["environment"]["WEB_SOCKET"] == web["environment"]["WEB_SOCKET"]
    assert proxy["volumes"] == web["volumes"]


def test_nothing_else_runs_but_the_servers(services: dict[str, Any]) -> None:
    assert set(services) == {PREPARE.name, *(process.name for process in PROCESSES), "postgres", "redis"}


def test_every_lasting_service_has_a_health_check(services: dict[str, Any]) -> None:
    lasting = set(services) - {PREPARE.name}
    assert {name for name in lasting if "healthcheck" in services[name]} == lasting


def test_dependencies_exist_and_have_what_is_waited_for(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for wanted, how in service.get("depends_on", {}).items():
            assert wanted in services, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[wanted]
            else:
                assert (how["condition"], services[wanted]["restart"]) == (
                    "service_completed_successfully",
                    "no",
                )


def test_no_secret_has_a_value_of_its_own() -> None:
    """Every password comes from the environment, and compose refuses to start without it."""
    text = "\n".join(
        line for line in COMPOSE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )
    for name in SECRETS:
        uses = re.findall(r"(?<!\$)\$\{" + name + r"([^}]*)\}", text)
        assert uses
        assert all(rest.startswith(":?") for rest in uses)


def test_broker_and_cache_are_two_databases_of_a_server_that_evicts_only_what_expires(
    services: dict[str, Any],
) -> None:
    for process in (one for one in (PREPARE, *PROCESSES) if one.role):
        environment = services[process.name]["environment"]
        assert environment["BROKER_URL"].endswith("@redis:6379/0")
        assert environment["CACHE_URL"].endswith("@redis:6379/1")
    assert "--maxmemory 512mb --maxmemory-policy volatile-lru" in services["redis"]["command"][-1]


def test_the_web_is_published_on_loopback_only(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"proxy": ["127.0.0.1:${PORT:-8000}:8000"]}


def test_composes_own_client_accepts_it() -> None:
    command = _client()
    if command is None:
        pytest.skip("No docker compose client is installed here.")
    environment = dict.fromkeys(SECRETS, "x") | {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    checked = subprocess.run(
        [*command, "-f", str(COMPOSE), "config", "--quiet"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def _client() -> list[str] | None:
    if shutil.which("docker"):
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if plugin.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None
