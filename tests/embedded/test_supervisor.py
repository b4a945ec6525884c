"""The supervisor with small processes of its own: what it prints, restarts and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from portal.embedded import ROOT
from portal.embedded.process import Backoff
from portal.embedded.supervisor import Supervisor
from portal.processes import Process
from tests.support.waiting import wait_until


def process(name: str, program: str, *, stage: int = 0) -> Process:
    return Process(name, ("python", "-u", "-c", program), role="app", stage=stage)


def run(supervisor: Supervisor, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        supervisor.step()


def test_lines_carry_the_name_of_their_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = [
        process(
            "web",
            "import os, sys; print(os.environ['PORTAL_DB_ROLE'], 1); sys.stderr.write('an error\\n' + 'x' * 70_000)",
        ),
        process(
            "embeddings",
            "import sys, time; sys.stdout.write('half'); time.sleep(0.2); print(' whole'); time.sleep(60)",
        ),
    ]
    supervisor = Supervisor(tmp_path, programs, os.environ)
    run(supervisor, 1.0)
    supervisor.stop()
    lines = capsys.readouterr().out.splitlines()
    assert "web        | app 1" in lines
    assert "web        | an error" in lines
    assert "web        | " + "x" * 70_000 in lines
    assert "embeddings | half whole" in lines


def test_a_process_that_ends_is_started_again_and_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor = Supervisor(
        tmp_path, [process("web", "import sys; print('started'); sys.exit(3)")], os.environ
    )
    run(supervisor, 1.5)
    supervisor.stop()
    out = capsys.readouterr().out
    assert "web ended with code 3 after 0 s; it is started again now." in out
    assert "web ended with code 3 after 0 s; it is started again in 1 s." in out
    assert out.count("started\n") >= 2


def test_waits_grow_and_begin_anew_after_a_steady_time(monkeypatch: pytest.MonkeyPatch) -> None:
    backoff = Backoff()
    assert [backoff.next() for _ in range(8)] == [0, 1, 2, 5, 10, 30, 30, 30]
    monkeypatch.setattr(Backoff, "STEADY_SECONDS", -1.0)
    assert backoff.next() == 0


STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(60)"
)
NOTES = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('bye'))); print('ready'); time.sleep(60)"


@pytest.mark.slow
def test_the_end_comes_in_order_and_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = [process("web", STUBBORN), process("worker", NOTES, stage=1), process("beat", NOTES, stage=2)]
    supervisor = Supervisor(tmp_path, programs, os.environ)
    run(supervisor, 1.0)
    pids = [child.process.pid for child in supervisor.children if child.process]
    started = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - started < 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("worker | bye") < lines.index("beat   | bye"), (
        "last words are still printed, in the order of stages"
    )


def test_what_a_killed_process_started_ends_with_it(tmp_path: Path) -> None:
    family = "import subprocess, sys; child = subprocess.Popen(['sleep', '60']); open('pid', 'w').write(str(child.pid)); child.wait()"
    supervisor = Supervisor(tmp_path, [process("worker", family)], os.environ)
    pid_file = tmp_path / "pid"
    wait_until(
        lambda: (supervisor.step(), pid_file.exists() and pid_file.read_text(encoding="utf-8") != "")[1]
    )
    grandchild = int(pid_file.read_text(encoding="utf-8"))
    assert supervisor.children[0].process is not None
    supervisor.children[0].process.kill()
    wait_until(lambda: (supervisor.step(), not Path(f"/proc/{grandchild}").exists())[1])
    supervisor.stop()


def test_processes_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    program = f"""
        import os
        from pathlib import Path
        from portal.embedded.supervisor import Supervisor
        from portal.processes import Process
        sleeper = Process("web", ("python", "-u", "-c", "import os, time; print(os.getpid()); time.sleep(60)"), role="app")
        supervisor = Supervisor(Path({str(tmp_path)!r}), [sleeper], os.environ)
        while True:
            supervisor.step()
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline().removeprefix("web | "))
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
