"""The README's blocks, run one after the other in a copy of the tree, as a newcomer would: `make up` beside the others.

The copy borrows the virtual environment, because what the test run has installed need not be downloaded again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
START_SECONDS = 120


def blocks() -> list[str]:
    return BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def copy_of_the_tree(target: Path) -> Path:
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)  # with its times, so that make finds nothing to install
    (target / ".venv").symlink_to(ROOT / ".venv")
    return target


def environment(port: int) -> dict[str, str]:
    """A newcomer's: none of the servers and settings of this test run."""
    dropped = ("DATABASE_", "REDIS_", "PORTAL_", "SECRET_KEY", "EMBEDDING_", "PYTEST_", "DJANGO_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "PORT": str(port)}


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
        return found


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def logins_of_processes(folder: Path) -> dict[str, set[str]]:
    """The database logins in the environment of the running processes of each role; as root none of them may be root's."""
    found: dict[str, set[str]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "environ").read_bytes().decode().split("\0")
            values = dict(word.split("=", 1) for word in words if "=" in word)
            if (process / "cwd").readlink() == folder and (role := values.get("PORTAL_DB_ROLE")):
                assert (process / "environ").stat().st_uid == 0, "closed to its own user"
                assert "Uid:\t0\t" not in (process / "status").read_text(), process
                found.setdefault(role, set()).update(name for name in values if name.startswith("DATABASE_"))
    return found


def run(block: str, folder: Path, port: int) -> str:
    script = f"set -eu\n{block}".replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(port),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, (
        f"{block}\nended with {done.returncode}:\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
    )
    return done.stdout


@pytest.mark.slow
def test_the_readme_says_what_works_OPS_1(tmp_path: Path, port: int) -> None:
    found = blocks()
    assert found[0].strip() == "make up"
    folder = copy_of_the_tree(tmp_path / "portal")  # other accounts may enter it, and not the folders above
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            ["make", "up"],
            cwd=folder,
            env=environment(port),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (answers(port) and (folder / ".portal" / "first-run.json").exists()):
            assert up.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.3)
        if os.geteuid() == 0:
            logins = logins_of_processes(folder)
            assert logins == {"app": {"DATABASE_URL"}, "worker": {"DATABASE_WORKER_URL"}}
        outputs = [run(block, folder, port) for block in found[1:] if block.strip() != "make test"]
        answer: dict[str, Any] = json.loads(outputs[0])
        names = [hit["tool"]["tool_id"] for hit in answer["results"]]
        assert any("clock" in name or "time" in name for name in names), names
        first_run = json.loads((folder / ".portal" / "first-run.json").read_text(encoding="utf-8"))
        assert set(first_run) >= {"url", "username", "password", "api_key"}
        assert first_run["url"] == f"http://127.0.0.1:{port}"
        assert (folder / ".portal" / "first-run.json").stat().st_mode & 0o077 == 0
        printed = log.read_text(encoding="utf-8")
        assert first_run["api_key"] in printed
        assert "curl" in printed
    finally:
        os.killpg(up.pid, signal.SIGINT)
        try:
            up.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(up.pid, signal.SIGKILL)
            up.wait()
        for target in ("down", "reset"):
            done = subprocess.run(
                ["make", target, "YES=1"],
                cwd=folder,
                env=environment(port),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"make {target}: {done.stdout}{done.stderr}"
    assert not answers(port)
