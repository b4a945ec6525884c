"""What changes a search's answer raises the version of the tenant's catalogue."""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.catalogue_version import raises_catalogue_version


class Migration(migrations.Migration):
    dependencies = [("tools", "0022_ranking"), ("tenancy", "0013_catalogue_version")]

    operations = [
        raises_catalogue_version("tools_tool"),
        raises_catalogue_version("tools_source", ["slug"]),
        # Not the vector itself: a dump names the operators of an extension without their schema, and cannot be restored.
        raises_catalogue_version(
            "tools_toolembedding", ["slot", "active", "status", "vector_hash", "embedded_at"]
        ),
    ]
