"""The names in override_field_known stand in the order of tools/fields.py. They are the same names, so the database keeps its
constraint.
"""

from __future__ import annotations

from django.db import migrations, models

OVERRIDABLE = (
    "name", "description", "tool_type", "category", "subcategory", "tags", "tech_stack", "use_cases", "routing_domain",
    "semantic_namespace", "sensitivity", "target_personas", "annotations", "visibility", "lifecycle", "owner", "core",
)  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("tools", "0012_named_constants")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint("manualoverride", "override_field_known"),
                migrations.AddConstraint(
                    "manualoverride",
                    models.CheckConstraint(
                        condition=models.Q(
                            ("field__in", OVERRIDABLE), ("field__startswith", "parameters."), _connector="OR"
                        ),
                        name="override_field_known",
                    ),
                ),
            ]
        )
    ]
