import django.db.models.deletion
import portal.tenancy.context
import portal.tenancy.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0003_concurrency_key"),
        ("tenancy", "0005_redundant_indexes"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="jobfailure",
            name="jobs_jobfailure_tenant_id",
        ),
        migrations.AlterField(
            model_name="job",
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
        migrations.AlterField(
            model_name="jobfailure",
            name="job",
            field=portal.tenancy.fields.TenantForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="failures",
                to="jobs.job",
            ),
        ),
        migrations.AlterField(
            model_name="jobfailure",
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
