"""Where imported tools come from: a source, the documents it was read from, and the endpoints they describe."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Now

from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey
from portal.tenancy.models import TenantModel
from tools.models.history import track

SLUG_PATTERN = r"^[a-z0-9][a-z0-9._-]*$"


class SourceKind(models.TextChoices):
    OPENAPI = "openapi", "OpenAPI"
    MCP = "mcp", "MCP"
    LIGHTAPI = "lightapi", "LightAPI"
    MANUAL = "manual", "Manual"  # a file of tools that somebody wrote: import_tools


DOCUMENT_KINDS = [(kind.value, kind.label) for kind in SourceKind if kind != SourceKind.MANUAL]


@track(exclude=["updated_at"])
class Source(TenantModel):
    """What an import reads. Its slug is the namespace of the tools that come from it."""

    slug = models.CharField(
        max_length=100,
        validators=[
            RegexValidator(SLUG_PATTERN, "Use lower-case letters, digits, dots, dashes and underscores.")
        ],
    )
    title = models.CharField(max_length=300, blank=True, default="")
    kind = models.CharField(max_length=10, choices=SourceKind.choices)
    url = models.URLField(max_length=2048, blank=True, default="")
    # Later syncs overwrite what operators edited; the edit form says so (SYN-5).
    sync_wins = models.BooleanField(default=False, verbose_name="sync wins over edits")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta(TenantModel.Meta):
        ordering = ("slug",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(fields=["tenant", "slug"], name="source_slug_once"),
            models.CheckConstraint(condition=models.Q(kind__in=SourceKind.values), name="source_kind_known"),
        ]

    def __str__(self) -> str:
        return self.slug


class SourceDocument(TenantModel):
    """A document as it was read, to the byte, with the report of its import. The newest is the source's state."""

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="documents")
    name = models.CharField(max_length=300)
    version = models.CharField(max_length=200, blank=True, default="")  # the API's own, info.version
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

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="endpoints")
    key = (
        models.TextField()
    )  # "<path>@<method>": what the operation is called in every version of the document
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
    content_hash = models.CharField(max_length=64)
    active = models.BooleanField(default=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            CompositeForeignKey(
                column="source_id", table="tools_source", name="endpoint_source", on_delete="CASCADE"
            ),
            models.UniqueConstraint(fields=["tenant", "source", "key"], name="endpoint_key_once"),
        ]

    def __str__(self) -> str:
        return self.key
