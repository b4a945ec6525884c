"""What workers have done, in sums without tenants; and when a task was last wished for, which is not when its row began."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("embeddings", "0008_figures")]

    operations = [
        migrations.RenameField("embeddingtask", "created_at", "wanted_at"),
        migrations.CreateModel(
            name="EmbeddingTally",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("figure", models.CharField(max_length=20)),
                ("label", models.CharField(blank=True, default="", max_length=40)),
                ("value", models.FloatField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("figure", "label"), name="embedding_tally_once"),
                ],
            },
        ),
        migrations.RunSQL(
            """
            REVOKE INSERT, UPDATE, DELETE ON embeddings_embeddingtally FROM portal_app;
            GRANT SELECT, INSERT, UPDATE ON embeddings_embeddingtally TO portal_worker;
            GRANT USAGE ON SEQUENCE embeddings_embeddingtally_id_seq TO portal_worker;
            """,
            "REVOKE ALL ON embeddings_embeddingtally FROM portal_worker",
        ),
    ]
