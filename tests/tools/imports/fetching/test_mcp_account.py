"""S11, SEC-2: what is started for an MCP server has an account of its own, and reads nothing of the portal's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from portal.embedded.account import COMMANDS, system_account
from tests.support.processes import ROOT
from tests.support.servers.account_spy import ANSWER, SPY, needs_landlock
from tests.support.servers.mcp_servers import allow, plain
from tools.imports.fetching.mcp.client import list_tools_from_command

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a second account")


def spied(settings: Any, folder: Path, *paths: Path) -> dict[str, Any]:
    settings.MCP_SECONDS = 20
    allow(
        settings,
        folder,
        spy={"command": [*plain(ANSWER, before=SPY), *map(str, paths)], "environment": ["SHOP_KEY"]},
    )
    (page,) = json.loads(list_tools_from_command("spy", "default").raw)["pages"]
    found: dict[str, Any] = json.loads(page["tools"][0]["description"])
    return found


@needs_root
@needs_landlock
def test_a_server_reads_nothing_of_another_one_that_has_the_same_account_S15(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "for-the-server")
    user, group = system_account(COMMANDS)
    with subprocess.Popen(
        ["/bin/sleep", "120"], user=user, group=group, extra_groups=[], env={"KEY": "of-the-neighbour"}
    ) as other:
        try:
            seen = spied(settings, tmp_path, Path(f"/proc/{other.pid}/environ"), ROOT / "manage.py")
        finally:
            other.kill()
    assert list(seen["files"].values()) == ["PermissionError", True]


@needs_root
def test_a_command_of_root_runs_as_an_account_of_its_own_and_reads_nothing_of_the_portal_S11(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "for-the-server")
    state = tmp_path / ".portal"
    state.mkdir(mode=0o700)
    secret, dotenv = state / "services.json", tmp_path / ".env"
    for path in (secret, dotenv):
        path.write_text("DATABASE_ADMIN_URL")
        path.chmod(0o600)
    seen = spied(settings, tmp_path, secret, dotenv, Path("/etc/shadow"), ROOT / "manage.py")
    user, group = system_account(COMMANDS)
    assert user != 0
    assert (seen["user"], seen["group"], seen["groups"]) == ([user] * 3, [group] * 3, [])
    assert list(seen["files"].values()) == ["PermissionError"] * 3 + [True]
    assert seen["environ"]
    assert set(seen["environ"].values()) == set(seen["memory"].values()) == {"PermissionError"}
    assert set(seen["environment"]) <= {"HOME", "LANG", "LC_CTYPE", "PATH", "SHOP_KEY", "TMPDIR"}
    assert (seen["home"], seen["empty"], seen["privileges"]) == (True, [], True)
    assert seen["beside"] == "PermissionError", "the folder of a neighbour's server is not to be found"
