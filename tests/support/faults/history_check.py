"""The history that triggers write, as it was and as it is (CAT-8)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import psycopg

from portal.tenancy.models import Tenant


class HistoryCheck:
    """The history so far: it grows, and what it holds stays."""

    TABLES = ("tools_toolevent", "tools_manualoverrideevent", "tools_sourceevent")

    def __init__(self, owner: psycopg.Connection[Any], tenant: Tenant) -> None:
        self.owner, self.tenant = owner, tenant
        self.known = dict.fromkeys(self.TABLES, (0, None))

    def check(self) -> None:
        """Of each table: a digest of what was known before, and then the newest event and a digest of all."""
        rows = self.owner.execute(
            " UNION ALL ".join(
                f"SELECT '{table}', md5(string_agg(e::text, ';' ORDER BY pgh_id) FILTER (WHERE pgh_id <= {last})), "
                f"coalesce(max(pgh_id), 0), md5(string_agg(e::text, ';' ORDER BY pgh_id)) FROM {table} e WHERE tenant_id = %(tenant)s"
                for table, (last, _) in self.known.items()
            ),
            {"tenant": self.tenant.pk},
        ).fetchall()
        assert {table: digest for table, digest, _, _ in rows} == {
            table: digest for table, (_, digest) in self.known.items()
        }
        self.known = {table: (last, digest) for table, _, last, digest in rows}

    def newest(self, pk: UUID) -> dict[str, Any]:
        """What the last write made of the tool, and whose it was."""
        row = self.owner.execute(
            "SELECT to_jsonb(e) || jsonb_build_object('actor', pgh_context->>'actor') FROM tools_toolevent e "
            "WHERE pgh_obj_id = %s ORDER BY pgh_id DESC LIMIT 1",
            [pk],
        ).fetchone()
        assert row is not None
        return dict(row[0])
