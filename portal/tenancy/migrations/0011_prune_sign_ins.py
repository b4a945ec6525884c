"""The worker deletes old sign-ins. Nobody else deletes any, and nobody one of the last 30 days (SIGN_INS_KEPT_DAYS is at least that)."""

from django.db import migrations

from portal.tenancy.rls import prunable


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0010_redundant_constraints"),
    ]

    operations = [prunable("tenancy_signin", column="at", days=30)]
