"""MCP servers as reusable connections (CAT-3): data only. Which commands may run, and which secrets may be sent, is decided
where the portal is deployed.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

from portal.error_text import ErrorField
from portal.tenancy.fields import one_of
from portal.tenancy.history import track
from portal.tenancy.models import TenantModel
from portal.tenancy.rights import current_rights

SLUG_PATTERN = r"^[a-z0-9][a-z0-9._-]*$"


class Health(models.TextChoices):
    UNKNOWN = "unknown", "Not asked yet"
    HEALTHY = "healthy", "Healthy"
    FAILING = "failing", "Failing"


@track(exclude=["updated_at", "health", "synced_at", "last_error"])
class McpServer(TenantModel):
    """How an MCP server is reached: the URL of one over streamable HTTP, or the id of a command of the deploy-time allow
    list; exactly one of both. `headers` maps names of HTTP headers to *names* of environment variables that hold their
    values; never a value."""

    slug = models.CharField(
        max_length=100,
        validators=[
            RegexValidator(SLUG_PATTERN, "Use lower-case letters, digits, dots, dashes and underscores.")
        ],
    )
    title = models.CharField(max_length=300, blank=True, default="")
    url = models.URLField(max_length=2048, blank=True, default="")
    command_id = models.CharField(max_length=100, blank=True, default="")
    headers = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    health = models.CharField(max_length=10, choices=Health.choices, default=Health.UNKNOWN, editable=False)
    synced_at = models.DateTimeField(null=True, editable=False)  # last asked with an answer
    last_error = ErrorField(blank=True, default="", editable=False)

    class Meta(TenantModel.Meta):
        verbose_name = "MCP server"
        ordering = ("slug",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(fields=["tenant", "slug"], name="mcp_server_slug_once"),
            models.CheckConstraint(
                condition=models.Q(url="", command_id__gt="") | models.Q(url__gt="", command_id=""),
                name="mcp_server_one_way",
            ),
            one_of("health", Health, name="mcp_server_health_known"),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def shown_error(self) -> str:
        """Its `last_error` for callers from whom no tool is hidden; else empty. It may quote whatever the server said of its tools."""
        return self.last_error if current_rights().sees_everything else ""
