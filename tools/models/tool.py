"""A tool, what an agent is offered, and its vectors. People's writes go through tools/catalogue/tools.py, those of imports
through tools/imports/syncing/apply.py and tools/imports/files/import_export.py."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import ClassVar
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from embeddings import slots
from embeddings.models import EntityEmbedding
from portal.json_types import JsonObject
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey, one_of
from portal.tenancy.history import track
from portal.tenancy.models import Sensitivity, TenantManager, TenantModel
from portal.tenancy.rights import Rights, current_rights
from tools.models.source import Endpoint, Source

TOOL_ID_LENGTH = 200


class ToolType(models.TextChoices):
    PYTHON = "python", "Python"
    BASH = "bash", "Bash"
    API = "api", "API"
    DOCKER = "docker", "Docker"
    MCP = "mcp", "MCP"


class DescriptionSource(models.TextChoices):
    ENDPOINT_SYNC = "endpoint_sync", "Imported"
    MANUAL = "manual", "Written by hand"


class Visibility(models.TextChoices):
    PUBLIC = "public", "Public"
    UNLISTED = "unlisted", "Unlisted (by id only)"
    PRIVATE = "private", "Private (owner and operators)"


class Lifecycle(models.TextChoices):
    ACTIVE = "active", "Active"
    DEPRECATED = "deprecated", "Deprecated"
    RETIRED = "retired", "Retired"


def _words() -> ArrayField[list[str], list[str]]:
    return ArrayField(models.TextField(), default=list, blank=True)


def visible_tools(rights: Rights, prefix: str = "") -> Q:
    """The condition for tools, or for rows that lead to tools by `prefix` ("tools__"), that the caller may open by id."""
    return _seen_by(rights, [Visibility.PUBLIC, Visibility.UNLISTED], prefix)


def _seen_by(rights: Rights, by_anybody: list[Visibility], prefix: str) -> Q:
    bounded = (
        Q() if rights.sees_all_sensitivities else Q(**{f"{prefix}sensitivity__in": rights.sensitivities})
    )
    if rights.may_edit:
        return bounded
    owned = Q(**{f"{prefix}owner": rights.username}) if rights.username else Q()
    return bounded & (Q(**{f"{prefix}visibility__in": by_anybody}) | owned)


def found_by(rights: Rights) -> JsonObject:
    """The caller's rights as the statement of a search takes them (search_kind_tool of tools/search/sql/): it finds public tools, and
    private ones for their owner and for callers who may edit, up to the caller's sensitivity; unlisted ones it never finds (CAT-1)."""
    told: JsonObject = {}
    if rights.may_edit:
        told["private"] = True
    elif rights.username:
        told["owner"] = rights.username
    if not rights.sees_all_sensitivities:
        told["sensitivities"] = rights.sensitivities
    return told


class ToolQuerySet(models.QuerySet["Tool"]):
    """Tools by who may see them and how they stand."""

    def visible_to(self, rights: Rights) -> ToolQuerySet:
        """The tools that the caller may open by id: private ones only for their owner and for callers who may edit."""
        return self.filter(visible_tools(rights))

    def seen(self) -> ToolQuerySet:
        """Those that are `visible_to` the current caller."""
        return self.visible_to(current_rights())

    def listed_for(self, rights: Rights) -> ToolQuerySet:
        """The tools in the caller's lists: private and unlisted ones only for their owner and for callers who may edit."""
        return self.filter(_seen_by(rights, [Visibility.PUBLIC], ""))

    def active(self) -> ToolQuerySet:
        """Those that are embedded and searched."""
        return self.filter(active=True)

    def find(self, ref: str, namespace: str) -> Tool | None:
        """The tool of this UUID, or else of this tool_id in the namespace; a tool_id may look like a UUID, too."""
        found = None
        with suppress(ValueError):
            found = self.filter(pk=UUID(ref)).first()
        return found or self.filter(tool_id=ref, namespace=namespace).first()

    # A tool has an embedding in each slot, so a join would list and count it twice while a second model fills.

    def with_serving_embedding(self) -> ToolQuerySet:
        """Prefetches in `embeddings` the one row of the serving slot, without its vector."""
        return self.prefetch_related(models.Prefetch("embeddings", ToolEmbedding.serving()))

    def with_embedding_status(self, status: str) -> ToolQuerySet:
        """Those whose serving embedding has this status."""
        return self.filter(pk__in=ToolEmbedding.serving().filter(status=status).values("entity"))

    def count_by_embedding_status(self) -> dict[str, int]:
        """How many there are of each status of the serving embedding; inactive tools as `inactive`, whatever is stored of them, and
        those without an embedding as `none`."""
        served = models.FilteredRelation(
            "embeddings", condition=models.Q(embeddings__slot=slots.serving().number)
        )
        groups = self.order_by().annotate(served=served).values_list("active", "served__status")
        counts: Counter[str] = Counter()
        for active, status, count in groups.annotate(models.Count("pk")):
            counts[(status or "none") if active else "inactive"] += count
        return dict(counts)


ToolManager = TenantManager.from_queryset(ToolQuerySet)


@track(exclude=["search_text", "updated_at"])
class Tool(TenantModel):
    """A tool of the catalogue (CAT-1). An endpoint-backed one is the projection of its endpoint."""

    tool_id = models.CharField(max_length=TOOL_ID_LENGTH)
    namespace = models.CharField(max_length=100, default="public")
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True, default="")
    description_source = models.CharField(
        max_length=20, choices=DescriptionSource.choices, default=DescriptionSource.MANUAL
    )
    tool_type = models.CharField(max_length=10, choices=ToolType.choices, default=ToolType.API)
    category = models.CharField(max_length=100, blank=True, default="")
    subcategory = models.CharField(max_length=100, blank=True, default="")
    tags = _words()
    tech_stack = _words()
    use_cases = _words()  # example questions it answers
    routing_domain = models.CharField(max_length=100, blank=True, default="")
    semantic_namespace = models.CharField(max_length=100, blank=True, default="")
    source_protocol = models.CharField(max_length=20, default="manual")
    server = models.CharField(max_length=300, blank=True, default="")  # the API or MCP server that offers it
    sensitivity = models.CharField(max_length=12, choices=Sensitivity.choices, default=Sensitivity.INTERNAL)
    target_personas = _words()
    parameters = models.JSONField(default=dict, blank=True)  # JSON Schema of an object
    output = models.JSONField(null=True, blank=True)  # JSON Schema
    annotations = models.JSONField(default=dict, blank=True)
    semantic_weight = models.FloatField(
        default=1.0, validators=[MinValueValidator(0.1), MaxValueValidator(3.0)]
    )
    visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PUBLIC)
    lifecycle = models.CharField(max_length=10, choices=Lifecycle.choices, default=Lifecycle.ACTIVE)
    owner = models.CharField(max_length=200, blank=True, default="")
    official = models.BooleanField(default=False)
    active = models.BooleanField(default=True)
    core = models.BooleanField(default=False)  # always offered to an agent
    estimated_cost = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    download_count = models.PositiveIntegerField(default=0, editable=False)

    source = TenantForeignKey(
        Source, on_delete=models.CASCADE, null=True, blank=True, related_name="tools", db_index=False
    )
    endpoint = TenantForeignKey(
        Endpoint, on_delete=models.CASCADE, null=True, blank=True, related_name="tools", db_index=False
    )

    version = models.PositiveIntegerField(
        default=1, editable=False
    )  # optimistic concurrency of people's edits
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_by = models.CharField(max_length=200, blank=True, default="", editable=False)

    # What the keyword arm reads beside name and description; a generated column and a trigger go on from here
    # (models/search_index.py).
    search_text = models.TextField(blank=True, default="", editable=False)

    objects: ClassVar[ToolManager[Tool]] = ToolManager()

    class Meta(TenantModel.Meta):
        ordering = ("name", "id")
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            CompositeForeignKey(
                column="source_id", table="tools_source", name="tool_source", on_delete="CASCADE"
            ),
            CompositeForeignKey(
                column="endpoint_id", table="tools_endpoint", name="tool_endpoint", on_delete="CASCADE"
            ),
            # An inactive tool keeps its tool_id, so a clash is a 409 that names it.
            models.UniqueConstraint(fields=["tenant", "namespace", "tool_id"], name="tool_id_once"),
            models.UniqueConstraint(fields=["tenant", "endpoint"], name="tool_endpoint_once"),
            one_of("tool_type", ToolType, name="tool_type_known"),
            one_of("sensitivity", Sensitivity, name="tool_sensitivity_known"),
            one_of("visibility", Visibility, name="tool_visibility_known"),
            one_of("lifecycle", Lifecycle, name="tool_lifecycle_known"),
            models.CheckConstraint(
                condition=models.Q(semantic_weight__gte=0.1, semantic_weight__lte=3.0),
                name="tool_semantic_weight_in_range",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["tenant", "name", "id"], name="tool_by_name"),  # the list page
            models.Index(fields=["tenant", "source"], name="tool_by_source"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def backing(self) -> tuple[Endpoint, Source]:
        """The endpoint and the source that the tool is imported from. Raises ValueError for a tool written by hand."""
        if self.endpoint is None or self.source is None:
            raise ValueError(f"{self.name} was not imported")
        return self.endpoint, self.source


class ToolEmbedding(EntityEmbedding):
    """The vector of a tool in one slot, and how it stands to the tool's text."""

    entity = TenantForeignKey(Tool, on_delete=models.CASCADE, related_name="embeddings", db_index=False)

    class Meta(EntityEmbedding.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *EntityEmbedding.Meta.constraints,
            CompositeForeignKey(
                column="entity_id", table="tools_tool", name="tool_embedding_tool", on_delete="CASCADE"
            ),
        ]

    @classmethod
    def serving(cls) -> models.QuerySet[ToolEmbedding]:
        """The embeddings that searches read, one a tool."""
        return slots.serving_rows(cls.objects.all())
