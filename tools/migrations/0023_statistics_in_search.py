"""Search filters tools by the statistics of their calls, and finds no quarantined one."""

from __future__ import annotations

from django.db import migrations

from tools.search.sql import load

BEFORE = load("0020_kind_tool.sql").replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


class Migration(migrations.Migration):
    dependencies = [
        ("tools", "0022_ranking"),
        ("metrics", "0001_initial"),
    ]

    operations = [migrations.RunSQL(load("0023_kind_tool.sql"), BEFORE)]
