"""Where imported tools come from: a source, the documents it was read from, and the endpoints they describe."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

from portal.error_text import ErrorField
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey, one_of
from portal.tenancy.history import track
from portal.tenancy.models import TenantModel
from tools.models.server import SLUG_PATTERN, McpServer


class SourceKind(models.TextChoices):
    OPENAPI = "openapi", "OpenAPI"
    MCP = "mcp", "MCP"
    LIGHTAPI = "lightapi", "LightAPI"
    MANUAL = "manual", "Manual"  # a file of tools that somebody wrote: import_tools


DOCUMENT_KINDS = [(kind.value, kind.label) for kind in SourceKind if kind != SourceKind.MANUAL]


class Schedule(models.TextChoices):
    """How often a source is synced automatically."""

    NEVER = "", "Never"
    HOURLY = "hourly", "Every hour"
    DAILY = "daily", "Every day"
    WEEKLY = "weekly", "Every week"


class Layer(models.TextChoices):
    """Whose words a document's are, least to most telling; an operator's override counts more than all of them."""

    EXTRACTION = "extraction", "Extraction"  # OpenAPI, an MCP server's list, a file of tools
    API = "api", "LightAPI of the API"
    ENDPOINT = "endpoint", "LightAPI of an endpoint"


@track(exclude=["document_title", "updated_at", "synced_at", "next_sync_at", "failures", "last_error"])
class Source(TenantModel):
    """What an import reads. Its slug is the namespace of its tools, but of a file of tools, which may name any."""

    slug = models.CharField(
        max_length=100,
        validators=[
            RegexValidator(SLUG_PATTERN, "Use lower-case letters, digits, dots, dashes and underscores.")
        ],
    )
    title = models.CharField(max_length=300, blank=True, default="")  # an operator's
    document_title = models.CharField(max_length=300, blank=True, default="", editable=False)
    kind = models.CharField(max_length=10, choices=SourceKind.choices)
    url = models.URLField(max_length=2048, blank=True, default="")
    # Where the tools of an MCP source are asked for.
    server = TenantForeignKey(
        McpServer, on_delete=models.RESTRICT, null=True, blank=True, related_name="sources"
    )
    # Later syncs overwrite what operators edited; the edit form says so (SYN-5).
    sync_wins = models.BooleanField(default=False, verbose_name="sync wins over edits")
    schedule = models.CharField(max_length=10, choices=Schedule.choices, blank=True, default=Schedule.NEVER)
    # A scheduled sync is applied by itself, unless more than a fifth of the tools would vanish.
    auto_apply = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    synced_at = models.DateTimeField(null=True, editable=False)  # last read without an error
    next_sync_at = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)  # in a row
    last_error = ErrorField(blank=True, default="", editable=False)

    class Meta(TenantModel.Meta):
        ordering = ("slug",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            CompositeForeignKey(column="server_id", table="tools_mcpserver", name="source_server"),
            one_of("schedule", Schedule, name="source_schedule_known"),
            models.UniqueConstraint(fields=["tenant", "slug"], name="source_slug_once"),
            one_of("kind", SourceKind, name="source_kind_known"),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def display_title(self) -> str:
        """What it is called: by an operator, else by its document."""
        return str(self.title or self.document_title)

    @property
    def is_readable(self) -> bool:
        """Whether there is an address to read it anew from."""
        return self.kind != SourceKind.MANUAL and bool(self.url or self.server_id)

    @property
    def is_new(self) -> bool:
        """Whether it is not stored yet."""
        return self._state.adding


class SourceDocument(TenantModel):
    """A document as it was read, to the byte, with the report of its import, or of the plan made of it, which may never be applied."""

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="documents")
    name = models.CharField(max_length=300)
    version = models.CharField(max_length=200, blank=True, default="")  # the API's own, info.version
    layer = models.CharField(max_length=10, choices=Layer.choices, default=Layer.EXTRACTION)
    sha256 = models.CharField(max_length=64)
    size = models.PositiveIntegerField()  # bytes
    content = models.BinaryField()
    report = models.JSONField()
    fetched_at = models.DateTimeField(db_default=Now())

    class Meta(TenantModel.Meta):
        ordering = ("-fetched_at",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            CompositeForeignKey(
                column="source_id", table="tools_source", name="source_document_source", on_delete="CASCADE"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Endpoint(TenantModel):
    """One operation of a source, as imported (CAT-2). The tool that agents see is its projection."""

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="endpoints", db_index=False)
    # What the operation is called in every version of the document: "<path>@<method>", of LightAPI the endpointId where
    # there is one, of a file of tools the id.
    key = models.TextField()
    method = models.CharField(max_length=16)
    path = models.TextField()
    name = models.CharField(max_length=200)
    title = models.TextField(blank=True, default="")
    description = models.TextField(blank=True, default="")
    tags = models.JSONField(default=list)
    input_schema = models.JSONField()
    output_schema = models.JSONField(null=True)
    metadata = models.JSONField(default=dict)
    deprecated = models.BooleanField(default=False)
    # What each layer says, where there is more than one; the columns hold what came of them.
    layers = models.JSONField(default=dict)
    content_hash = models.CharField(max_length=64)
    active = models.BooleanField(default=True)
    # Its vanishing deactivated the tool, so its return brings the tool back; a tool that an operator deactivated stays so.
    deactivated_tool = models.BooleanField(default=False, db_column="took_tool_down")
    updated_at = models.DateTimeField(db_default=Now())

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            CompositeForeignKey(
                column="source_id", table="tools_source", name="endpoint_source", on_delete="CASCADE"
            ),
            # Checked at the end of the transaction, since two operations of a sync may change places.
            models.UniqueConstraint(
                fields=["tenant", "source", "key"],
                name="endpoint_key_once",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ]

    def __str__(self) -> str:
        return self.key
