"""The image's two accounts (S11). No engine runs here, so the Dockerfile's text is checked, and its `as-portal` is made and run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from portal.embedded import ROOT
from portal.embedded.account import COMMANDS, PORTAL, system_account
from portal.processes import PREPARE, PROCESSES
from tests.support.servers.account_spy import ANSWER, SPY
from tests.support.servers.mcp_servers import plain

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
AS_PORTAL = "/usr/local/bin/as-portal"
# Becomes the image's user, which root cannot hand to a program below a closed folder in another way.
AS_USER = """
import os, sys
from pathlib import Path
from portal.embedded.spawn import show_below_closed_folders
folder, user, group = str(Path.cwd()), int(sys.argv[1]), int(sys.argv[2])
given = [folder, sys.prefix, sys.base_prefix]
show_below_closed_folders([*given, *map(os.path.realpath, given)])
os.chdir(folder)
os.setgroups([])
os.setresgid(group, group, group)
os.setresuid(user, user, user)
os.execv(sys.argv[3], sys.argv[3:])
"""


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE.replace("\\\n", " "), re.MULTILINE)


@pytest.fixture
def as_portal() -> Iterator[Path]:
    """The program as the Dockerfile makes it, in a folder that all accounts may enter."""
    [making] = re.findall(rf"(install [^&]*) {AS_PORTAL}", instructions("RUN")[0])
    for account in (PORTAL, COMMANDS):
        system_account(account)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        made = Path(folder) / "as-portal"
        subprocess.run([*making.split(), str(made)], check=True)
        yield made


def test_the_image_runs_as_the_account_of_mcp_servers_and_enters_the_portals_S11() -> None:
    made = re.findall(r"useradd [^&]*?(\S+)\s*(?:&&|$)", instructions("RUN")[0])
    assert made == [PORTAL, COMMANDS], "the portal's comes first: it keeps the number that owns older volumes"
    assert instructions("USER") == [COMMANDS]
    assert [json.loads(words) for words in instructions("ENTRYPOINT")] == [["as-portal"]]


def test_no_service_or_check_leaves_as_portal_out_or_starts_a_shell_before_it_S11() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for process in (PREPARE, *PROCESSES):
        service = services[process.name]
        assert not {"entrypoint", "user", "security_opt"} & set(service), process.name
        if check := service.get("healthcheck"):
            assert check["test"][:2] == ["CMD", "as-portal"], process.name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program of another account")
def test_a_server_in_a_container_reads_nothing_of_the_portal_and_cannot_become_it_S11(
    as_portal: Path, tmp_path: Path
) -> None:
    portal, servers = system_account(PORTAL), system_account(COMMANDS)
    secret = as_portal.with_name("first-run.json")
    secret.write_text("{}")
    os.chown(secret, *portal)
    secret.chmod(0o600)
    becomes = f"""
import subprocess
tried = subprocess.run([{str(as_portal)!r}, "id", "-u"], stdout=subprocess.PIPE, text=True).stdout
found = json.dumps({{**json.loads(found), "becomes": int(tried)}})
"""
    server = json.dumps([*plain(ANSWER, before=SPY + becomes), str(secret)])
    command = [sys.executable, "-m", "tests.support.servers.account_spy", server, str(secret)]
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, *map(str, servers), str(as_portal), *command],
        cwd=ROOT, env={**os.environ, "PORTAL_DB_ROLE": "app", "SECRET_KEY": "signs"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seen: dict[str, Any] = json.loads(done.stdout)
    assert (seen["user"], seen["groups"]) == ([servers[0], portal[0], portal[0]], [])
    assert list(seen["files"].values()) == [True]
    found = seen["server"]
    assert (found["user"], found["group"]) == ([servers[0]] * 3, [servers[1]] * 3)
    assert list(found["files"].values()) == ["PermissionError"]
    assert set(found["environ"].values()) == set(found["memory"].values()) == {"PermissionError"}
    assert (found["becomes"], found["privileges"]) == (servers[0], True)
