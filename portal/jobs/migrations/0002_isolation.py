"""Row-level security of jobs: the web sees its tenant's, a runner everyone's; and who may say that a worker is alive."""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.rls import isolate

WORKER = """
GRANT SELECT, UPDATE, DELETE ON jobs_job TO portal_worker;
CREATE POLICY worker ON jobs_job TO portal_worker USING (true) WITH CHECK (true);
REVOKE INSERT, UPDATE, DELETE ON jobs_workerheartbeat FROM portal_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON jobs_workerheartbeat TO portal_worker;
"""
BACK = """
DROP POLICY worker ON jobs_job;
REVOKE ALL ON jobs_workerheartbeat FROM portal_worker;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial"), ("tenancy", "0002_roles_and_isolation")]

    operations = [
        isolate("jobs_job", worker=""),
        isolate("jobs_jobfailure"),
        migrations.RunSQL(WORKER, BACK),
    ]
