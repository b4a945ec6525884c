"""Row-level security of servers and syncs, as of the rest of the catalogue; and jobs, which the worker's login runs, may sync."""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.rls import append_only, isolate

WRITTEN_BY_SYNCS = ("source", "sourcedocument", "endpoint", "tool", "manualoverride", "posting")
HISTORY = ("sourceevent", "toolevent", "manualoverrideevent")

GRANT = "\n".join(
    [
        *(f"GRANT INSERT, UPDATE, DELETE ON tools_{table} TO portal_worker;" for table in WRITTEN_BY_SYNCS),
        *(
            f"GRANT SELECT, INSERT ON tools_{table} TO portal_worker; ALTER POLICY tenant ON tools_{table} TO portal_app, portal_worker;"
            for table in HISTORY
        ),
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO portal_worker;",
        "GRANT EXECUTE ON FUNCTION tools_analyze() TO portal_worker;",
        "GRANT INSERT ON jobs_job TO portal_worker;",  # a scheduled sync is one
    ]
)
REVOKE = "\n".join(
    [
        *(
            f"REVOKE INSERT, UPDATE, DELETE ON tools_{table} FROM portal_worker;"
            for table in WRITTEN_BY_SYNCS
        ),
        *(
            f"REVOKE ALL ON tools_{table} FROM portal_worker; ALTER POLICY tenant ON tools_{table} TO portal_app;"
            for table in HISTORY
        ),
        "REVOKE EXECUTE ON FUNCTION tools_analyze() FROM portal_worker;",
        "REVOKE INSERT ON jobs_job FROM portal_worker;",
    ]
)


class Migration(migrations.Migration):
    dependencies = [("tools", "0007_syncs"), ("jobs", "0002_isolation")]

    operations = [
        isolate("tools_mcpserver"),
        isolate("tools_sync"),
        isolate("tools_syncchange"),
        isolate("tools_mcpserverevent", worker=""),
        append_only("tools_mcpserverevent"),
        migrations.RunSQL(GRANT, REVOKE),
    ]
