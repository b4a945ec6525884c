"""One set of embedded services: its data, its passwords, and what it makes of leftovers and of bad folders."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from portal.embedded import ROOT, ServiceError, Services, start
from portal.embedded.account import programs
from portal.embedded.layout import Layout
from portal.env import next_redis_database
from tests.support.embedded import QUICK, copy_services, query, short_folder
from tests.support.waiting import wait_until


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def refused(folder: Path, match: str) -> None:
    with pytest.raises(ServiceError, match=match) as caught:
        start(folder, postgres_settings=QUICK).stop()
    assert "\n" not in str(caught.value)


def start_in_child(folder: Path, *, then: str) -> subprocess.Popen[str]:
    """A process that starts services in `folder`, says their pids on its stdout and does `then`."""
    program = f"""
        import os, sys, time
        from portal.embedded import start
        services = start({str(folder)!r}, postgres_settings={QUICK!r}, keep=True)
        print(*services.pids.values(), flush=True)
        {then}
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


class TestData:
    def test_is_kept_from_one_start_to_the_next_and_after_a_crash(self, used: Path) -> None:
        with start(used, keep=True) as services:
            query(services, "CREATE TABLE kept AS SELECT 1 AS number")
            first = services.urls
        with start(used, keep=True) as services:
            assert query(services, "SELECT number FROM kept") == [(1,)]
            assert services.urls == first, "passwords, used and port stay"
            query(services, "INSERT INTO kept VALUES (2)")
            services.postgres.restart("immediate")
            assert query(services, "SELECT number FROM kept ORDER BY 1") == [(1,), (2,)]
            assert query(services, "SHOW fsync") == [("on",)], "durable unless asked otherwise"

    @pytest.mark.slow
    def test_of_a_throwaway_set_is_deleted(self, used: Path) -> None:
        with start(used, postgres_settings=QUICK) as services:
            home = services.postgres.layout.home
        assert not (home / "postgres").exists()
        assert not (used / "services.json").exists()

    def test_deleting_it_leaves_everything_else_in_the_folder(self, used: Path) -> None:
        (used / "mine.txt").write_text("precious", encoding="utf-8")
        start(used, postgres_settings=QUICK).stop()
        assert {path.name for path in used.iterdir()} == {"mine.txt", "services.lock"}


@pytest.fixture(scope="module")
def shared(made: Path) -> Iterator[Services]:
    """A running set for the tests that only look."""
    with short_folder() as path:
        copy_services(made, path)
        with start(path, postgres_settings=QUICK) as services:
            yield services


class TestARunningSet:
    def test_has_pgvector_and_a_locale_that_is_not_the_machines(self, shared: Services) -> None:
        query(shared, "CREATE EXTENSION vector")
        assert query(shared, "SELECT '[1,0]'::vector <=> '[0,1]'::vector") == [(1.0,)]
        assert query(shared, "SELECT datcollate FROM pg_database WHERE datname = 'portal'") == [("C.UTF-8",)]

    def test_keeps_its_folders_and_secrets_closed(self, shared: Services) -> None:
        layout = shared.postgres.layout
        assert mode(layout.sockets) == (0o710 if layout.account else 0o700)
        assert mode(layout.postgres) == 0o700
        assert mode(layout.state / "services.json") == 0o600
        assert query(shared, "SHOW listen_addresses") == [("",)], "no network at all"

    def test_lets_nobody_into_the_database_without_the_password(self, shared: Services) -> None:
        admin = shared.urls["DATABASE_ADMIN_URL"]
        password = urlsplit(admin).password or ""
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(admin.replace(f":{password}@", "@"))
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(admin.replace(password, "guessed"))

    def test_lets_nobody_into_the_broker_without_the_password(self, shared: Services) -> None:
        stranger = redis.Redis(host="127.0.0.1", port=shared.valkey.port, retry=Retry(NoBackoff(), 0))
        with stranger, pytest.raises(redis.exceptions.AuthenticationError):
            stranger.ping()
        with redis.Redis.from_url(shared.urls["REDIS_URL"]) as friend:
            assert friend.ping()
            assert friend.config_get("maxmemory-policy") == {"maxmemory-policy": "volatile-lru"}

    def test_a_full_server_gives_up_keys_of_the_cache_and_no_queue(self, shared: Services) -> None:
        url = shared.urls["REDIS_URL"]
        with redis.Redis.from_url(url) as broker, redis.Redis.from_url(next_redis_database(url)) as cache:
            limit = broker.config_get("maxmemory")["maxmemory"]
            for number in range(2_000):
                cache.set(f"result-{number}", "x" * 1_000, ex=3_600)
            broker.rpush("queue", "a message")
            broker.config_set("maxmemory", broker.info("memory")["used_memory"])
            try:
                broker.rpush("queue", *["another message" * 50] * 500)
                assert broker.llen("queue") == 501
                assert cache.dbsize() < 2_000
            finally:
                broker.config_set("maxmemory", limit)
                broker.delete("queue")
                cache.flushdb()

    def test_has_no_password_on_a_command_line(self, shared: Services) -> None:
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in shared.pids.values()]
        passwords = [urlsplit(url).password for url in shared.urls.values()]
        assert not any(password.encode() in line for line in lines for password in passwords if password)

    def test_is_not_started_twice(self, shared: Services) -> None:
        refused(shared.postgres.layout.state, "already run")

    @pytest.mark.slow
    def test_does_not_disturb_another(self, shared: Services, used: Path) -> None:
        with start(used, postgres_settings=QUICK) as other:
            query(other, "CREATE TABLE mine ()")
            assert query(shared, "SELECT to_regclass('mine')") == [(None,)]


@pytest.mark.slow
def test_a_long_path_with_blanks_gets_a_closed_socket_folder_of_its_own(used: Path) -> None:
    state = used / "a folder with blanks" / ("x" * 100)
    state.mkdir(mode=0o700, parents=True)
    copy_services(used, state)
    with start(state, postgres_settings=QUICK) as services:
        sockets = services.postgres.layout.sockets
        assert mode(sockets) == (0o710 if os.geteuid() == 0 else 0o700)
        assert query(services, "SELECT 1") == [(1,)]
    if os.geteuid() != 0:
        assert sockets.parent != services.postgres.layout.home
        assert not sockets.exists()


class TestRestarts:
    @pytest.mark.slow
    def test_valkey_comes_back_on_its_port_after_a_kill_and_after_a_freeze(self, used: Path) -> None:
        with (
            start(used, postgres_settings=QUICK) as services,
            redis.Redis.from_url(services.urls["REDIS_URL"]) as client,
        ):
            os.kill(services.pids["valkey"], signal.SIGKILL)
            services.valkey.restart()
            client.set("queued", "message")
            os.kill(services.pids["valkey"], signal.SIGSTOP)
            services.valkey.restart()
            assert client.get("queued") == b"message", "what is queued survives a clean stop"

    @pytest.mark.slow
    def test_a_port_that_was_taken_meanwhile_is_replaced(self, used: Path) -> None:
        with start(used, postgres_settings=QUICK, keep=True) as services:
            port = services.valkey.port
        with socket.create_server(("127.0.0.1", port)), start(used, postgres_settings=QUICK) as services:
            assert services.valkey.port != port
            with redis.Redis.from_url(services.urls["REDIS_URL"]) as client:
                assert client.ping()


class TestLeftovers:
    @pytest.mark.slow
    def test_servers_end_with_a_killed_owner_and_the_next_start_recovers(self, used: Path) -> None:
        owner = start_in_child(used, then="time.sleep(60)")
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        owner.kill()
        owner.wait()
        owner.stdout.close()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        with start(used, postgres_settings=QUICK) as services:
            assert query(services, "SELECT 1") == [(1,)]

    @pytest.mark.slow
    def test_a_server_that_still_runs_on_our_data_is_ended(self, used: Path) -> None:
        with start(used, postgres_settings=QUICK, keep=True) as services:
            layout, found = services.postgres.layout, services.postgres.programs
        user, group = layout.account or (None, None)
        stray = subprocess.Popen(
            [found.postgres_bin / "postgres", "-D", layout.postgres, "-k", layout.sockets],
            cwd=layout.postgres, user=user, group=group, extra_groups=[] if user else None,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until((layout.sockets / ".s.PGSQL.5432").exists)
        with start(used, postgres_settings=QUICK) as services:
            assert stray.wait(10) == 0
            assert query(services, "SELECT 1") == [(1,)]

    @pytest.mark.slow
    def test_a_pid_file_whose_pid_is_another_program_now_is_no_obstacle(self, used: Path) -> None:
        with start(used, postgres_settings=QUICK, keep=True) as services:
            layout = services.postgres.layout
        with subprocess.Popen(["sleep", "60"]) as innocent:
            for name in ("postgres/postmaster.pid", "valkey/valkey.pid"):
                (layout.home / name).write_text(f"{innocent.pid}\n", encoding="utf-8")
            with start(used, postgres_settings=QUICK) as services:
                assert query(services, "SELECT 1") == [(1,)]
            assert innocent.poll() is None
            innocent.kill()

    @pytest.mark.slow
    def test_an_interrupted_first_start_is_made_anew(self, folder: Path) -> None:
        layout = Layout.of(folder, programs().account)
        layout.make()
        (layout.home / "postgres.new" / "base").mkdir(parents=True)
        with start(folder, postgres_settings=QUICK) as services:
            assert query(services, "SELECT 1") == [(1,)]

    @pytest.mark.skipif(os.geteuid() != 0, reason="Only root keeps the data outside the project's folder.")
    @pytest.mark.slow
    def test_a_project_cloned_again_at_the_same_path_starts_anew(self, used: Path) -> None:
        with start(used, postgres_settings=QUICK, keep=True) as services:
            home = services.postgres.layout.home
        (used / "services.json").unlink()
        with start(used, postgres_settings=QUICK, keep=True) as services:
            assert query(services, "SELECT 1") == [(1,)]
        assert (home.with_name(f"{home.name}.old") / "postgres" / "PG_VERSION").exists()


class TestSentences:
    """What cannot work is said in one sentence."""

    def test_a_damaged_file_of_secrets(self, folder: Path) -> None:
        (folder / "services.json").write_text("{", encoding="utf-8")
        refused(folder, r"services\.json is damaged")

    @pytest.mark.slow
    def test_secrets_of_another_database(self, used: Path) -> None:
        with start(used, postgres_settings=QUICK, keep=True) as services:
            password = urlsplit(services.urls["DATABASE_ADMIN_URL"]).password or ""
        secrets = used / "services.json"
        secrets.write_text(secrets.read_text(encoding="utf-8").replace(password, "other"), encoding="utf-8")
        refused(used, "another password")
        layout = services.postgres.layout
        assert not (layout.postgres / "postmaster.pid").exists(), "nothing runs on after a refusal"

    @pytest.mark.slow
    def test_a_setting_that_postgresql_does_not_know(self, used: Path) -> None:
        with pytest.raises(ServiceError, match="unrecognized configuration parameter"):
            start(used, postgres_settings={**QUICK, "no_such_setting": "1"})

    @pytest.mark.skipif(
        os.geteuid() == 0, reason="Root may write everywhere; the next test takes another user."
    )
    def test_a_folder_that_may_not_be_written(self, folder: Path) -> None:
        folder.chmod(0o500)
        refused(folder / "state", "cannot be written to")
        folder.chmod(0o700)

    @pytest.mark.skipif(os.geteuid() != 0, reason="Only root can become another user.")
    def test_a_folder_that_may_not_be_written_by_another_user(self, folder: Path) -> None:
        folder.chmod(0o755)
        assert "state cannot be written to: Permission denied." in self.as_nobody(folder / "state")

    @pytest.mark.skipif(os.geteuid() != 0, reason="Only root can become another user.")
    def test_a_folder_of_another_user(self, folder: Path) -> None:
        folder.chmod(0o755)
        assert f"{folder} belongs to user root" in self.as_nobody(folder)

    def as_nobody(self, folder: Path) -> str:
        """What an ordinary user reads; imports come first, because the interpreter may be closed to that user."""
        program = f"""
            import encodings.idna, os
            from portal.embedded import ServiceError, start
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
            try:
                start({str(folder)!r})
            except ServiceError as error:
                print(error)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    @pytest.mark.skipif(os.geteuid() != 0, reason="Only root can mount a small disk.")
    @pytest.mark.slow
    def test_a_full_disk(self, folder: Path) -> None:
        mount = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            'mount -t tmpfs -o size=1m none "$0" && exec "$@"',
            str(folder),
        ]
        if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
            pytest.skip("This machine lets nobody mount.")
        program = f"from portal.embedded import ensure; from pathlib import Path\nwith ensure(Path({str(folder)!r})): pass"
        environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        done = subprocess.run(
            [*mount, sys.executable, "-c", program],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 4
        assert "full" in done.stderr
        assert len(done.stderr.splitlines()) == 1
