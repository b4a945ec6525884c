"""The services of a project, shared by the commands that use them: who starts them, who stops them, who dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from portal.embedded import ROOT, ServiceError, ensure, running
from portal.embedded.account import programs
from portal.embedded.layout import Layout
from tests.support.waiting import wait_until


def server_pids(project: Path) -> list[int]:
    """The pids in the servers' own files, whether or not they still live."""
    layout = Layout.of(project / ".portal", programs().account)
    files = [
        path for path in (layout.postgres / "postmaster.pid", layout.valkey / "valkey.pid") if path.exists()
    ]
    return [int(path.read_text(encoding="utf-8").split()[0]) for path in files]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def user(project: Path, *, then: str) -> subprocess.Popen[str]:
    """A process that uses the services of the project: says `up`, does `then`, says `done`."""
    program = f"""
        import sys, time
        from pathlib import Path
        from portal.embedded import running
        with running(Path({str(project)!r})):
            print("up", flush=True)
            {then}
        print("done", flush=True)
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_last_user_stops_them_and_leaves_when_they_have_ended(project: Path) -> None:
    users = [user(project, then="sys.stdin.readline()") for _ in range(3)]
    for one in users:
        assert one.stdout is not None
        assert one.stdout.readline() == "up\n"
    pids = server_pids(project)
    assert len(pids) == 2
    for one in users:
        assert all(alive(pid) for pid in pids), "they run while anybody uses them"
        assert one.communicate("go\n")[0] == "done\n"
    assert not any(alive(pid) for pid in pids)
    assert server_pids(project) == []


@pytest.mark.slow
def test_a_killed_user_leaves_nothing_behind(project: Path) -> None:
    one = user(project, then="time.sleep(60)")
    assert one.stdout is not None
    assert one.stdout.readline() == "up\n"
    pids = server_pids(project)
    one.kill()
    one.communicate()
    wait_until(lambda: not any(alive(pid) for pid in pids))
    with running(project):
        assert all(alive(pid) for pid in server_pids(project)), "and the next one starts them again"


@pytest.mark.slow
def test_a_server_that_crashes_is_started_again(project: Path) -> None:
    with running(project):
        before = server_pids(project)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: len(now := server_pids(project)) == 2 and not set(now) & set(before))
    log = (project / ".portal" / "log" / "keeper.log").read_text(encoding="utf-8")
    assert "PostgreSQL ended by itself" in log
    assert "Valkey ended by itself" in log


@pytest.mark.slow
def test_a_killed_keeper_takes_the_servers_along_and_is_replaced(project: Path) -> None:
    with running(project) as hold:
        before = server_pids(project)
        keeper = int(Path(f"/proc/{before[0]}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
        assert hold.revive() is False
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in before))
        assert hold.revive() is True
        assert all(alive(pid) for pid in server_pids(project))


def test_why_they_cannot_start_is_said_to_the_user(project: Path) -> None:
    (project / ".portal" / "services.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ServiceError, match="is damaged"), running(project):
        pytest.fail("nothing runs here")


def test_a_command_ends_with_one_sentence(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL")
    (project / ".portal" / "services.json").write_text("{}", encoding="utf-8")
    with pytest.raises(SystemExit) as ended, ensure(project):
        pytest.fail("nothing runs here")
    assert ended.value.code == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_real_servers_need_no_embedded_ones(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/portal")
    with ensure(folder):
        assert not (folder / ".portal").exists()
