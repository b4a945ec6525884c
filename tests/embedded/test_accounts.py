"""OPS-1, S11: as root, the portal's processes run as an account that owns nothing, know one database login each, and start MCP
servers as a third account."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from portal import env
from portal.embedded import ROOT
from portal.embedded.account import COMMANDS, DATA, PORTAL, PortalAccount, portal_account, system_account
from portal.embedded.supervisor import Supervisor
from portal.processes import LOGIN_OF_ROLE, Process
from tests.support.servers.account_spy import ANSWER, SPY, needs_landlock
from tests.support.servers.mcp_servers import plain, running, soon

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has other accounts")
URLS = {name: f"postgresql://{name}/portal" for name in LOGIN_OF_ROLE.values()}


def spied(
    account: PortalAccount,
    role: str,
    environment: dict[str, str],
    capsys: Any,
    *paths: Path,
    server: Sequence[str] = (),
) -> Any:
    """What a process of this role says of itself, and a server that it starts."""
    words = json.dumps(server or [*plain(ANSWER, before=SPY), *map(str, paths)])
    command = ("python", "-m", "tests.support.servers.account_spy", words, *map(str, paths))
    supervisor = Supervisor(ROOT, [Process("spy", command, role=role)], environment, account)
    deadline, said = time.monotonic() + 60, ""
    try:
        while '"server"' not in said:
            assert time.monotonic() < deadline, said
            supervisor.step()
            said += capsys.readouterr().out
    finally:
        supervisor.kill()
        while any(child.process for child in supervisor.children):
            supervisor.step()
    return json.loads(said[said.index("{") : said.index("\n", said.index('"server"'))])


@needs_root
def test_root_runs_the_portal_as_an_account_that_reads_no_secret_and_knows_one_login_S11(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account = portal_account(ROOT)
    assert account is not None
    assert len({0, system_account(DATA)[0], account.account[0], account.commands[0]}) == 4
    secret = tmp_path / "services.json"
    secret.write_text(json.dumps(URLS))
    secret.chmod(0o600)
    base = {**os.environ, **URLS, "SECRET_KEY": "signs", "HOME": str(account.home)}
    seen = spied(account, "app", base, capsys, secret)
    assert seen["user"] == [system_account(COMMANDS)[0], *[system_account(PORTAL)[0]] * 2]
    assert (seen["groups"], seen["ends_with_parent"], seen["home"]) == ([], True, str(account.home))
    assert (seen["logins"], seen["role"], seen["secret"]) == (["DATABASE_URL"], "app", "signs")
    assert list(seen["files"].values()) == [False]
    server = seen["server"]
    assert (server["user"], server["group"]) == ([account.commands[0]] * 3, [account.commands[1]] * 3)
    assert list(server["files"].values()) == ["PermissionError"]
    assert set(server["environ"].values()) == set(server["memory"].values()) == {"PermissionError"}
    assert (server["home"], server["empty"], server["privileges"]) == (True, [], True)
    assert server["beside"] == "PermissionError"


@needs_root
@needs_landlock
def test_a_server_that_kills_the_session_which_started_it_leaves_no_process_S11(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = f"mark-{tmp_path.name}"
    code = (
        "import os, signal, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {mark!r}], start_new_session=True)\n"
        "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)"
    )
    account = portal_account(ROOT)
    assert account is not None
    base = {**os.environ, "SECRET_KEY": "signs", "HOME": str(account.home)}
    assert spied(account, "app", base, capsys, server=[sys.executable, "-c", code])["server"] == ""
    assert soon(lambda: running(mark), 3) == []


@pytest.mark.parametrize(
    ("role", "logins"), [("app", ["DATABASE_URL"]), ("worker", ["DATABASE_WORKER_URL"]), ("admin", sorted(URLS))]
)  # fmt: skip
def test_a_process_keeps_of_the_generated_logins_that_of_its_role_alone_S11(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, logins: list[str]
) -> None:
    (tmp_path / "services.json").write_text(json.dumps({**URLS, "SECRET_KEY": "signs"}))
    monkeypatch.setattr(env, "STATE", tmp_path)
    monkeypatch.setenv("PORTAL_DB_ROLE", role)
    assert sorted(env._generated()) == [*logins, "SECRET_KEY"]
