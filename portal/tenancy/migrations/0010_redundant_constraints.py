from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0009_sign_ins"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="invitation", name="tenancy_invitation_tenant_id"),
        migrations.RemoveConstraint(model_name="signin", name="tenancy_signin_tenant_id"),
    ]
