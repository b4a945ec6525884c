"""Row-level security of the catalogue. The worker reads tools and writes vectors; history is added to and read only."""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.rls import append_only, isolate

VECTORS = """
-- Exact scans of a tenant's vectors read ten times faster when the vectors are not toasted (docs/search.md).
ALTER TABLE tools_toolembedding ALTER COLUMN vector SET STORAGE PLAIN;
-- pgvector takes zero and unnormalised vectors without a word, and then sorts them wrongly.
ALTER TABLE tools_toolembedding ADD CONSTRAINT toolembedding_vector_normalised
    CHECK (vector IS NULL OR vector_norm(vector) BETWEEN 0.99 AND 1.01);
"""


class Migration(migrations.Migration):
    dependencies = [("tools", "0001_initial"), ("tenancy", "0002_roles_and_isolation")]

    operations = [
        isolate("tools_source", worker="SELECT"),
        isolate("tools_sourcedocument", worker="SELECT"),
        isolate("tools_endpoint", worker="SELECT"),
        isolate("tools_tool", worker="SELECT"),
        isolate("tools_manualoverride", worker="SELECT"),
        isolate("tools_toolembedding", worker="SELECT, INSERT, UPDATE"),
        *(
            operation
            for table in ("tools_sourceevent", "tools_toolevent", "tools_manualoverrideevent")
            for operation in (isolate(table, worker=""), append_only(table))
        ),
        # Every event carries its own context, so nobody needs the table that would hold all tenants' beside each other.
        migrations.RunSQL(
            "REVOKE ALL ON pghistory_context FROM portal_app",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON pghistory_context TO portal_app",
        ),
        migrations.RunSQL(
            VECTORS, "ALTER TABLE tools_toolembedding DROP CONSTRAINT toolembedding_vector_normalised"
        ),
    ]
