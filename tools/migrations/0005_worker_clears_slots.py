"""The worker deletes the vectors of a slot that was given up (EMB-10), tenant by tenant."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tools", "0004_halfvec_index")]

    operations = [
        migrations.RunSQL(
            "GRANT DELETE ON tools_toolembedding TO portal_worker",
            "REVOKE DELETE ON tools_toolembedding FROM portal_worker",
        )
    ]
