"""The errors of sources, servers and syncs are bounded, as other stored errors are. PostgreSQL's cast cuts those that are longer."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tools", "0015_redundant_indexes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="mcpserver",
            name="last_error",
            field=models.CharField(blank=True, default="", editable=False, max_length=500),
        ),
        migrations.AlterField(
            model_name="source",
            name="last_error",
            field=models.CharField(blank=True, default="", editable=False, max_length=500),
        ),
        migrations.AlterField(
            model_name="sync",
            name="error",
            field=models.CharField(blank=True, default="", max_length=500),
        ),
    ]
