import django.db.models.deletion
import portal.tenancy.context
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("embeddings", "0010_to_resilience"),
        ("tenancy", "0005_redundant_indexes"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="embeddingtask",
            name="embeddings_embeddingtask_tenant_id",
        ),
        migrations.AlterField(
            model_name="embeddingtask",
            name="tenant",
            field=models.ForeignKey(
                db_index=False,
                default=portal.tenancy.context.current_tenant,
                editable=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="tenancy.tenant",
            ),
        ),
    ]
