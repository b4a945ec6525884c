"""The database keeps no index that another one makes needless: every write pays for each."""

from __future__ import annotations

from django.apps import apps
from django.db import connection

from portal.tenancy.models import TenantModel

OURS = {"portal", "tools", "embeddings", "metrics"}
# The columns of every b-tree of the schema in their order, with its predicate. What a constraint needs is kept, whatever else there is.
INDEXES = """
SELECT t.relname, i.relname, x.indkey::int[], coalesce(pg_get_expr(x.indpred, x.indrelid), ''), x.indisunique
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid JOIN pg_am ON pg_am.oid = i.relam
WHERE t.relnamespace = 'public'::regnamespace AND amname = 'btree' AND NOT 0 = ANY(x.indkey::int[])
    AND NOT EXISTS (SELECT FROM unnest(x.indclass::oid[]) AS o(oid) JOIN pg_opclass c ON c.oid = o.oid WHERE NOT opcdefault)
"""


def _indexes() -> list[tuple[str, str, list[int], str, bool]]:
    with connection.cursor() as cursor:
        cursor.execute(INDEXES)
        found: list[tuple[str, str, list[int], str, bool]] = cursor.fetchall()
    return found


def test_no_index_is_the_beginning_of_another_one_of_its_table(db: None) -> None:
    own = {model._meta.db_table for model in apps.get_models() if model.__module__.split(".")[0] in OURS}
    found = [index for index in _indexes() if index[0] in own]
    needless = [
        f"{name} begins {other}"
        for table, name, columns, predicate, unique in found
        for of, other, longer, rule, _ in found
        if of == table
        and other != name
        and not unique
        and longer[: len(columns)] == columns
        and predicate == rule
    ]
    assert found
    assert needless == []


def test_every_table_of_tenants_has_an_index_that_begins_with_the_tenant(db: None) -> None:
    """Row-level security asks for the tenant in every query."""
    tables = {model._meta.db_table: model for model in apps.get_models() if issubclass(model, TenantModel)}
    with connection.cursor() as cursor:
        numbers = {}
        for table in tables:
            cursor.execute(
                "SELECT attnum FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'tenant_id'",
                [table],
            )
            numbers[table] = cursor.fetchone()[0]
    led = {
        table
        for table, _, columns, predicate, _ in _indexes()
        if not predicate and columns[0] == numbers.get(table)
    }
    assert set(tables) - led == set()
