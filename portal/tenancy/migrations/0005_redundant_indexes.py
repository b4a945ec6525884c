import django.db.models.deletion
import portal.tenancy.context
import portal.tenancy.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0004_histories"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="idempotencykey",
            name="tenancy_idempotencykey_tenant_id",
        ),
        migrations.RemoveConstraint(
            model_name="membership",
            name="tenancy_membership_tenant_id",
        ),
        migrations.AlterField(
            model_name="apikey",
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
            model_name="idempotencykey",
            name="api_key",
            field=portal.tenancy.fields.TenantForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="tenancy.apikey",
            ),
        ),
        migrations.AlterField(
            model_name="idempotencykey",
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
            model_name="membership",
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
