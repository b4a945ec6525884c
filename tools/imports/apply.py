"""Makes the catalogue follow a parsed document, in one transaction: endpoints first, then the tools that are their
projections, then their embeddings. What an operator overrode stays. A dry run does the same and rolls back.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from embeddings.models import Priority
from portal.tenancy.context import current_tenant
from tools import embedding, services
from tools.errors import CatalogueError
from tools.imports.projection import endpoint_fields, tool_fields
from tools.imports.specs import EndpointSpec, ParsedDocument
from tools.models import Endpoint, ManualOverride, Source, SourceDocument, SourceKind, Tool
from tools.models.tool import TOOL_ID_LENGTH

CHUNK = 200


@dataclass(slots=True)
class ImportReport:
    """What an import found and did. `operations` = tools + len(left_out); `protected` counts tools with a kept override."""

    source: str
    operations: int = 0
    tools: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    protected: int = 0
    left_out: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class _DryRun(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document came from and how its source is called."""

    slug: str
    kind: SourceKind
    name: str  # of the file, or the URL
    raw: bytes
    url: str = ""
    namespace: str = ""  # of the tools; the slug where it is empty
    whole: bool = True  # what the document no longer has is removed; a file of tools only adds and changes


def apply_document(
    document: ParsedDocument, origin: Origin, *, actor: str, dry_run: bool = False
) -> ImportReport:
    """Imports the document into the current tenant. Raises CatalogueError; then nothing has been stored."""
    report = ImportReport(
        source=origin.slug,
        operations=document.operations,
        left_out=[asdict(entry) for entry in document.left_out],
        warnings=list(document.warnings),
        dry_run=dry_run,
    )
    try:
        with services.catalogue_write(actor):
            # One import of a source at a time; a second waits as long as a save would and is then told so.
            with connection.cursor() as cursor:
                # A thousand tools in one statement may take longer than a page's statements may.
                cursor.execute("SET LOCAL statement_timeout = '120s'")
                cursor.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                    [f"source {current_tenant()} {origin.slug}"],
                )
            source = _source(document, origin)
            _Import(source, origin, report, actor).run(document)
            _keep_document(source, document, origin, report)
            if dry_run:
                raise _DryRun
    except _DryRun:
        pass
    return report


def _source(document: ParsedDocument, origin: Origin) -> Source:
    source = Source.objects.filter(slug=origin.slug).first()
    if source is None:
        source = Source(slug=origin.slug, kind=origin.kind, title=document.title[:300], url=origin.url)
        source.full_clean(exclude=["tenant"])
        source.save(force_insert=True)
    elif source.kind != origin.kind:
        raise CatalogueError(
            f"The source {source.slug} is of kind {source.get_kind_display()}; import this under another name (--source)."
        )
    elif source.title != document.title[:300]:
        source.title = document.title[:300]
        source.save(update_fields=["title"])
    return source


def _keep_document(source: Source, document: ParsedDocument, origin: Origin, report: ImportReport) -> None:
    sha256 = hashlib.sha256(origin.raw).hexdigest()
    newest = source.documents.values_list("sha256", flat=True).first()
    if newest != sha256:
        SourceDocument.objects.create(
            source=source, name=origin.name[:300], version=document.version[:200], sha256=sha256,
            size=len(origin.raw), content=origin.raw, report=report.as_dict(),
        )  # fmt: skip


class _Import:
    """One import while it runs: the three lists (new, changed, vanished) and the rows they touch."""

    def __init__(self, source: Source, origin: Origin, report: ImportReport, actor: str) -> None:
        self.source, self.report, self.actor = source, report, actor
        self.namespace = origin.namespace or source.slug
        self.whole = origin.whole

    def run(self, document: ParsedDocument) -> None:
        known = {
            key: (pk, content_hash, active)
            for pk, key, content_hash, active in self.source.endpoints.values_list(
                "pk", "key", "content_hash", "active"
            )
        }
        hashes = {spec.key: spec.content_hash() for spec in document.endpoints}
        new = [spec for spec in document.endpoints if spec.key not in known]
        changed = [
            spec
            for spec in document.endpoints
            if spec.key in known and known[spec.key][1:] != (hashes[spec.key], True)
        ]
        vanished = (
            [pk for key, (pk, _, active) in known.items() if active and key not in hashes]
            if self.whole
            else []
        )
        new = self._without_taken_ids(new)
        self.report.removed = len(vanished)
        self.report.changed = len(changed)
        self.report.added = len(new)
        self.report.tools = self.report.operations - len(self.report.left_out)
        self.report.unchanged = self.report.tools - len(new) - len(changed)
        self._add(new, hashes)
        self._change(changed, known, hashes)
        self._remove(vanished)

    def _without_taken_ids(self, new: list[EndpointSpec]) -> list[EndpointSpec]:
        """Drops (as left out) specs whose verbatim id belongs to another source's tool: ids of a file are not ours to bend."""
        if self.source.kind != SourceKind.MANUAL:
            return new
        taken = set(
            Tool.objects.filter(namespace=self.namespace, tool_id__in=[spec.key for spec in new]).values_list(
                "tool_id", flat=True
            )
        )
        self.report.left_out += [
            {"operation": spec.key, "reason": f"the tool_id exists already in namespace {self.namespace}"}
            for spec in new
            if spec.key in taken
        ]
        return [spec for spec in new if spec.key not in taken]

    def _add(self, specs: list[EndpointSpec], hashes: dict[str, str]) -> None:
        taken = set(Tool.objects.filter(namespace=self.namespace).values_list("tool_id", flat=True))
        for start in range(0, len(specs), CHUNK):
            endpoints, tools = [], []
            for spec in specs[start : start + CHUNK]:
                endpoint = Endpoint(
                    source=self.source, content_hash=hashes[spec.key], key=spec.key, **endpoint_fields(spec)
                )
                tool = Tool(
                    source=self.source, endpoint=endpoint, namespace=self.namespace, updated_by=self.actor,
                    tool_id=_tool_id(self.source, spec, taken), **tool_fields(spec, self.source),
                )  # fmt: skip
                tool.search_text = embedding.search_text(tool)
                endpoints.append(endpoint)
                tools.append(tool)
            Endpoint.objects.bulk_create(endpoints)
            Tool.objects.bulk_create(tools)
            services.put_in_step(tools, priority=Priority.BACKFILL)

    def _change(self, specs: list[EndpointSpec], known: dict[str, Any], hashes: dict[str, str]) -> None:
        by_id = {known[spec.key][0]: spec for spec in specs}
        ids = sorted(by_id)
        for start in range(0, len(ids), CHUNK):
            chunk = ids[start : start + CHUNK]
            endpoints = list(Endpoint.objects.filter(pk__in=chunk).order_by("pk").select_for_update())
            reappeared = {endpoint.pk for endpoint in endpoints if not endpoint.active}
            for endpoint in endpoints:
                spec = by_id[endpoint.pk]
                for name, value in endpoint_fields(spec).items():
                    setattr(endpoint, name, value)
                endpoint.content_hash, endpoint.active = hashes[spec.key], True
                endpoint.updated_at = Now()
            Endpoint.objects.bulk_update(
                endpoints, [*endpoint_fields(by_id[chunk[0]]), "content_hash", "active", "updated_at"]
            )
            self._project({endpoint.pk: endpoint for endpoint in endpoints}, by_id, reappeared)

    def _project(
        self, endpoints: dict[Any, Endpoint], by_id: dict[Any, EndpointSpec], reappeared: set[Any]
    ) -> None:
        tools = list(
            Tool.objects.filter(endpoint_id__in=list(endpoints))
            .order_by("pk")
            .select_for_update(of=("self",))
        )
        kept = self._overridden(tools)
        written, names = [], set()
        for tool in tools:
            tool.endpoint, tool.source = endpoints[tool.endpoint_id], self.source
            spec = by_id[tool.endpoint_id]
            fields = {
                name: value
                for name, value in tool_fields(spec, self.source).items()
                if name not in kept[tool.pk]
            }
            self.report.protected += bool(kept[tool.pk])
            if tool.endpoint_id in reappeared:
                fields["active"] = True
            moved = {name: value for name, value in fields.items() if getattr(tool, name) != value}
            for name, value in moved.items():
                setattr(tool, name, value)
            search_text = embedding.search_text(tool)
            if moved or search_text != tool.search_text:
                tool.search_text = search_text
                tool.version += 1
                tool.updated_at, tool.updated_by = Now(), self.actor
                written.append(tool)
                names |= moved.keys()
        if written:
            Tool.objects.bulk_update(written, [*names, "search_text", "version", "updated_at", "updated_by"])
        services.put_in_step(tools, priority=Priority.BACKFILL)

    def _overridden(self, tools: list[Tool]) -> dict[Any, set[str]]:
        kept: dict[Any, set[str]] = {tool.pk: set() for tool in tools}
        if self.source.sync_wins:
            ManualOverride.objects.filter(tool__in=tools).delete()
            return kept
        for tool_id, name in ManualOverride.objects.filter(tool__in=tools).values_list("tool_id", "field"):
            kept[tool_id].add(name)
            if name == "description":
                kept[tool_id].add("description_source")
        return kept

    def _remove(self, ids: list[Any]) -> None:
        if not ids:
            return
        Endpoint.objects.filter(pk__in=ids).update(active=False, updated_at=Now())
        tools = list(
            Tool.objects.filter(endpoint_id__in=ids, active=True)
            .select_related("endpoint", "source").order_by("pk").select_for_update(of=("self",))
        )  # fmt: skip
        for tool in tools:
            tool.active = False
            tool.version += 1
            tool.updated_at, tool.updated_by = Now(), self.actor
        Tool.objects.bulk_update(tools, ["active", "version", "updated_at", "updated_by"])
        services.put_in_step(tools)


def _tool_id(source: Source, spec: EndpointSpec, taken: set[str]) -> str:
    """The id of a new tool: a file's own id to the letter, else the operation's name, told apart by its key where an older
    tool still holds that name."""
    wanted = spec.key if source.kind == SourceKind.MANUAL else spec.name
    if wanted in taken:
        wanted = f"{spec.name[:55]}_{hashlib.sha256(spec.key.encode()).hexdigest()[:8]}"
    taken.add(wanted)
    return wanted[:TOOL_ID_LENGTH]
