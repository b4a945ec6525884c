"""The search counts how rare a word is among the tools that it is about, and no longer among all of the tenant: the score of a
tool told a key bound to a sensitivity how many tools above it have the word (SEC-4)."""

from __future__ import annotations

from django.db import migrations

from tools.search.sql import load

DROP = "DROP FUNCTION tools_search_candidates;\n"
HAND_OVER = load("0012_hand_over.sql")


class Migration(migrations.Migration):
    dependencies = [("tools", "0016_bounded_errors")]

    operations = [
        migrations.RunSQL(
            DROP + load("0017_candidates.sql") + HAND_OVER, DROP + load("0012_candidates.sql") + HAND_OVER
        ),
    ]
