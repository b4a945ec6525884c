"""`make up`, `make down`, `make reset` where they have something to refuse; their good days are a journey of their own."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.embedded import ROOT, ServiceError, commands, running
from portal.embedded.account import programs
from portal.embedded.commands import DATABASES, REDIS, down, reset, up
from portal.embedded.layout import Layout, lock


@pytest.fixture(autouse=True)
def _no_servers_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*DATABASES, *REDIS, "PORT", "HOST", "MAKELEVEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def refusal(root: Path) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        up(root)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_port_in_use_names_the_way_out(
    folder: Path, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT", str(taken_port))
    error = refusal(folder)
    assert f"Port {taken_port} of 127.0.0.1 cannot be used" in str(error)
    assert f"make up PORT={taken_port + 1}" in str(error)
    assert error.exit_code == 4
    assert not (folder / ".portal" / "services.json").exists(), "nothing was started"


@pytest.mark.parametrize("port", ["abc", "0", "65536", "-1", "80 80"])
def test_a_port_that_is_none(folder: Path, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", port)
    assert (refusal(folder).exit_code, "PORT must be" in str(refusal(folder))) == (2, True)


@pytest.mark.parametrize("known", [{}, {"api_key": "tp_of_another_database"}])
def test_password_and_key_are_printed_at_the_first_start_only_SEC_4(
    folder: Path, known: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "first-run.json"
    run = {"url": "", "username": "operator", "password": "a-password", "api_key": "tp_a-key"}
    file.write_text(json.dumps(run), encoding="utf-8")
    commands._announce(file, "127.0.0.1", 8000, known)
    first = capsys.readouterr().out
    assert "with the password a-password" in first
    assert "Authorization: Bearer tp_a-key" in first
    # A later start reads the file before it prepares the database.
    commands._announce(file, "127.0.0.1", 8001, commands._read(file))
    later = capsys.readouterr().out
    assert "Tool Portal runs at http://127.0.0.1:8001" in later
    assert "first-run.json" in later
    assert "a-password" not in later
    assert "tp_a-key" not in later


def test_a_second_one_in_the_same_folder_names_the_first(folder: Path) -> None:
    (folder / ".portal").mkdir(mode=0o700)
    held = lock(folder / ".portal" / "up.lock")
    assert held is not None
    with held:
        held.write("4711")
        held.flush()
        assert "already runs in this folder (process 4711)" in str(refusal(folder))


def test_half_named_servers_are_refused_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/portal")
    assert "DATABASE_WORKER_URL, DATABASE_ADMIN_URL" in str(refusal(folder))
    monkeypatch.delenv("REDIS_URL")
    monkeypatch.setenv("BROKER_URL", "redis://elsewhere")
    assert "DATABASE_WORKER_URL, DATABASE_ADMIN_URL, CACHE_URL" in str(refusal(folder))


def test_down_where_nothing_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    down(folder)
    (folder / ".portal").mkdir(mode=0o700)
    (folder / ".portal" / "up.lock").write_text("4711", encoding="utf-8")
    down(folder)
    assert capsys.readouterr().out == "Tool Portal does not run in this folder.\n" * 2


def test_down_ends_the_holder_of_the_lock_and_waits_for_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ".portal").mkdir(mode=0o700)
    program = f"""
import os, time
from pathlib import Path
from portal.embedded.layout import lock
held = lock(Path({str(folder)!r}) / ".portal" / "up.lock")
held.write(str(os.getpid())); held.flush()
print("held", flush=True); time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        down(folder)
    assert capsys.readouterr().out == "Stopped.\n"


class TestReset:
    def test_asks_and_deletes_nothing_without_a_yes(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(ServiceError, match="make reset YES=1"):
            reset(project, confirmed=False)
        terminal = io.StringIO("no\n")
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)
        reset(project, confirmed=False)
        assert "Nothing was deleted." in capsys.readouterr().out
        assert (project / ".portal" / "services.json").exists()

    @pytest.mark.slow
    def test_is_refused_while_anybody_uses_the_services(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(commands, "RESET_SECONDS", 0.2)
        with running(project), pytest.raises(ServiceError, match="make down"):
            reset(project, confirmed=True)

    @pytest.mark.slow
    def test_waits_for_those_who_are_about_to_end(self, project: Path) -> None:
        with running(project):
            waiting = threading.Thread(target=reset, args=(project,), kwargs={"confirmed": True})
            waiting.start()
            waiting.join(0.5)
            assert waiting.is_alive()
        waiting.join(30)
        assert not (project / ".portal" / "services.json").exists()

    def test_deletes_data_secrets_and_logs(self, project: Path) -> None:
        layout = Layout.of(project / ".portal", programs().account)
        reset(project, confirmed=True)
        assert not layout.postgres.exists()
        assert {path.suffix for path in layout.state.iterdir()} <= {".lock"}

    def test_has_nothing_to_do_in_a_new_folder(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        reset(folder, confirmed=True)
        assert capsys.readouterr().out == "There is nothing to delete.\n"
        assert list(folder.iterdir()) == []
