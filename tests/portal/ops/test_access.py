"""Who may do what in the database is what the code wants, and a right that was lost or added is put right (OPS-3, SEC-1)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from portal.ops import access
from tests.plugin import with_database
from tests.support.database import login

# What a restore or a hand leaves behind.
WRONG = {
    "the grants of a table are gone": "REVOKE ALL ON tools_tool FROM portal_app, portal_worker, portal_search",
    "the grant of a column is gone": "REVOKE UPDATE (serves) ON embeddings_embeddingmodel FROM portal_app",
    "a table is granted where a column should be": "GRANT SELECT ON tenancy_tenant TO portal_worker",
    "a policy is gone": "DROP POLICY tenant ON tools_tool",
    "a policy lets everything through": "ALTER POLICY tenant ON tools_tool USING (true)",
    "a policy more is for everybody": "CREATE POLICY more ON tools_tool USING (true)",
    "row-level security is off": "ALTER TABLE tools_tool DISABLE ROW LEVEL SECURITY",
    "row-level security is not forced": "ALTER TABLE tools_tool NO FORCE ROW LEVEL SECURITY",
    "a function runs as another owner": "ALTER FUNCTION search_candidates OWNER TO CURRENT_USER",
    "everybody may run a function": "GRANT EXECUTE ON FUNCTION portal_memberships TO PUBLIC",
    "history can be changed": "GRANT UPDATE, DELETE ON tools_toolevent TO portal_app",
    "everybody may create tables": "GRANT CREATE ON SCHEMA public TO PUBLIC",
    "tables to come are not granted": "ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM portal_app",
    "a sequence is not granted": "REVOKE ALL ON SEQUENCE tools_toolevent_pgh_id_seq FROM portal_app",
    "a group is bound by nothing": "ALTER ROLE portal_app BYPASSRLS",
    "the function's owner is bound": "ALTER ROLE portal_search NOBYPASSRLS",
    "a group is in another one": "GRANT portal_search TO portal_app",
    "a table belongs to a group": "ALTER TABLE tools_tool OWNER TO portal_app",
    "all of it": """
        DROP POLICY tenant ON tools_tool; DROP POLICY tenant ON tools_source; DROP POLICY tenant ON tenancy_apikey;
        REVOKE ALL ON ALL TABLES IN SCHEMA public FROM portal_app, portal_worker, portal_search, portal_identity;
        REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM portal_app, portal_worker;
        ALTER FUNCTION search_candidates OWNER TO CURRENT_USER;
        GRANT EXECUTE ON FUNCTION search_candidates TO PUBLIC
    """,
}


@pytest.fixture
def owner(django_db_blocker: Any) -> Iterator[None]:
    """The owner's login, whose changes are undone."""
    with django_db_blocker.unblock(), login("DATABASE_ADMIN_URL"), transaction.atomic():
        yield
        transaction.set_rollback(True)


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_sec_1_the_file_of_rights_says_what_the_migrations_make(django_db_blocker: Any) -> None:
    template = with_database(os.environ["DATABASE_ADMIN_URL"], os.environ["PORTAL_TEST_TEMPLATE"])
    with django_db_blocker.unblock(), login("DATABASE_ADMIN_URL", url=template):
        assert access.as_file() == access.FILE.read_text(encoding="utf-8"), "make access writes it anew"
        assert access.differences() == []


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_ops_3_a_right_that_was_lost_or_added_is_put_right(owner: None, wrong: str) -> None:
    before = access.found()
    run(wrong)
    assert access.differences(), "nobody noticed"
    mended = access.mend()
    assert mended.left == {}
    assert mended.done
    assert access.found() == before
    assert access.mend().done == []


def test_ops_3_a_table_that_lost_all_its_policies_has_them_again_before_the_migrations(owner: None) -> None:
    before = access.found()
    run("DROP POLICY tenant ON jobs_job; DROP POLICY worker ON jobs_job; DROP POLICY tenant ON tools_tool")
    assert len(access.restore_policies()) == 3
    assert access.found() == before


def test_ops_3_what_an_operator_granted_to_roles_of_their_own_is_left_alone(owner: None) -> None:
    role = (
        f"reporting_{os.getpid()}"  # roles are the cluster's, where other processes of this run make theirs
    )
    run(f"""
        CREATE ROLE {role}; GRANT SELECT ON tools_tool TO {role};
        CREATE POLICY reporting ON tools_tool FOR SELECT TO {role} USING (true);
        CREATE TABLE of_an_operator (id integer); GRANT ALL ON of_an_operator TO portal_app, PUBLIC;
        CREATE FUNCTION of_an_operator() RETURNS integer LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'
    """)
    assert access.differences() == []
