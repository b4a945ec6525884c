"""What an operator wrote over an imported field, and what it replaced (SYN-5)."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey
from portal.tenancy.history import track
from portal.tenancy.models import TenantModel
from tools import fields
from tools.models.tool import Tool

PARAMETER_PREFIX = "parameters."  # before a parameter's name: its description is overridden
FIELD_LENGTH = 250


@track()
class ManualOverride(TenantModel):
    """An operator's value of one field, which syncs leave alone until it is reset."""

    tool = TenantForeignKey(Tool, on_delete=models.CASCADE, related_name="overrides", db_index=False)
    field = models.CharField(max_length=FIELD_LENGTH)  # one of fields.OVERRIDABLE, or parameters.<name>
    value = models.JSONField()
    imported_value = models.JSONField()  # what the source said when the override was made or last looked at
    made_by = models.CharField(max_length=200)
    made_at = models.DateTimeField(db_default=Now())

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            CompositeForeignKey(
                column="tool_id", table="tools_tool", name="override_tool", on_delete="CASCADE"
            ),
            models.UniqueConstraint(fields=["tenant", "tool", "field"], name="override_once"),
            models.CheckConstraint(
                condition=models.Q(field__in=fields.OVERRIDABLE)
                | models.Q(field__startswith=PARAMETER_PREFIX),
                name="override_field_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.field} of {self.tool_id}"
