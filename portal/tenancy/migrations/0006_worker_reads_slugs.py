"""The worker reads the names of tenants too: MCP_COMMANDS_FILE says by name which tenant may use what, and syncs ask it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0005_redundant_indexes")]

    operations = [
        migrations.RunSQL(
            "GRANT SELECT (slug) ON tenancy_tenant TO portal_worker",
            "REVOKE SELECT (slug) ON tenancy_tenant FROM portal_worker",
        ),
    ]
