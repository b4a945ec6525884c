"""A quarantine that begins or ends raises the version of the tenant's catalogue; a call that is counted does not."""

from __future__ import annotations

from django.db import migrations

from portal.tenancy.catalogue_version import raises_catalogue_version


class Migration(migrations.Migration):
    dependencies = [("metrics", "0001_initial"), ("tenancy", "0013_catalogue_version")]

    operations = [raises_catalogue_version("metrics_toolstatistics", ["quarantined_until"])]
