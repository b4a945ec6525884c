"""The version of a tenant's catalogue (SRC-6): it is another one after every commit that changes what a search may answer."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from django.db.migrations import RunSQL


def catalogue_version() -> int:
    """That of the current tenant. Read it before what is remembered under it: then that is at least as new."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT catalogue_version FROM tenancy_tenant WHERE id = current_setting('portal.tenant')::uuid"
        )
        row = cursor.fetchone()
        return int(row[0]) if row else 0


def raises_catalogue_version(table: str, columns: Sequence[str] = ()) -> RunSQL:
    """The step of a migration after which rows of a tenant's table raise the version: inserted, deleted, and updated where one of the
    `columns` changed (any, without them)."""
    changed = (
        f" WHEN (({', '.join(f'OLD.{column}' for column in columns)}) IS DISTINCT FROM "
        f"({', '.join(f'NEW.{column}' for column in columns)}))"
        if columns
        else ""
    )
    trigger, updated = f"{table}_catalogue_version", f"{table}_catalogue_version_updated"
    made = (
        f"CREATE CONSTRAINT TRIGGER {trigger} AFTER INSERT OR DELETE ON {table} DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION portal_raise_catalogue_version();\n"
        f"CREATE CONSTRAINT TRIGGER {updated} AFTER UPDATE ON {table} DEFERRABLE INITIALLY DEFERRED "
        f"FOR EACH ROW{changed} EXECUTE FUNCTION portal_raise_catalogue_version();"
    )
    return RunSQL(made, f"DROP TRIGGER {trigger} ON {table};\nDROP TRIGGER {updated} ON {table};")
