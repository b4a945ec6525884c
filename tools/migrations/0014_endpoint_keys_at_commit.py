"""Two operations of a document may change places, so the key of an endpoint is compared at the end of the transaction. The
previous code writes keys that are never taken, and works with it as before.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools", "0013_overridable_in_table_order")]

    operations = [
        migrations.RemoveConstraint("endpoint", "endpoint_key_once"),
        migrations.AddConstraint(
            "endpoint",
            models.UniqueConstraint(
                fields=["tenant", "source", "key"],
                name="endpoint_key_once",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ),
    ]
