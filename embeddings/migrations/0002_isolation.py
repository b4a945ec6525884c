"""Row-level security of the work table: the web sees its tenant's tasks, the worker everyone's."""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.rls import isolate

WORKER = """
ALTER TABLE embeddings_embeddingtask SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
GRANT SELECT, INSERT, UPDATE, DELETE ON embeddings_embeddingtask TO portal_worker;
CREATE POLICY worker ON embeddings_embeddingtask TO portal_worker USING (true) WITH CHECK (true);
"""


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0001_initial"), ("tenancy", "0002_roles_and_isolation")]

    operations = [
        isolate("embeddings_embeddingtask", worker=""),
        migrations.RunSQL(WORKER, "DROP POLICY worker ON embeddings_embeddingtask"),
    ]
