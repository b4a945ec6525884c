"""Makes the catalogue follow a parsed document, in one transaction: endpoints first, then the tools that are their
projections, then their embeddings. What an operator overrode stays. A dry run does the same and rolls back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from embeddings.models import Priority
from portal.tenancy.context import current_tenant
from tools import embedding, services
from tools.errors import CatalogueError
from tools.imports.projection import endpoint_fields, tool_fields, unfit
from tools.imports.specs import EndpointSpec, ParsedDocument
from tools.models import (
    OVERRIDABLE_FIELDS,
    Endpoint,
    ManualOverride,
    Source,
    SourceDocument,
    SourceKind,
    Tool,
)
from tools.models.tool import TOOL_ID_LENGTH

CHUNK = 200
MANY = 500  # rows written by an import after which the planner needs new statistics


@dataclass(slots=True)
class ImportReport:
    """What an import found and did.

    `operations` = tools + len(left_out), and `tools` = added + changed + unchanged. `protected` counts those of them that
    keep what an operator wrote.
    """

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
            source, renamed = _source(document, origin)
            _Import(source, origin, report, actor, everything=renamed or source.sync_wins).run(document)
            _keep_document(source, document, origin, report)
            if report.added + report.changed + report.removed >= MANY:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT tools_analyze()")
            if dry_run:
                raise _DryRun  # noqa: TRY301 - the way out of the transaction
    except _DryRun:
        pass
    return report


def _source(document: ParsedDocument, origin: Origin) -> tuple[Source, bool]:
    """The source, locked against its deletion, and whether its title, which its tools show, is another than before."""
    title = document.title[:300]
    source = Source.objects.select_for_update().filter(slug=origin.slug).first()
    if source is None:
        source = Source(slug=origin.slug, kind=origin.kind, title=title, url=origin.url)
        # The address was good enough to be fetched from; a form's idea of one has no host without a dot.
        source.full_clean(exclude=["tenant", "url"])
        source.save(force_insert=True)
        return source, False
    if source.kind != origin.kind:
        raise CatalogueError(
            f"The source {source.slug} is of kind {source.get_kind_display()}; import this under another name (--source)."
        )
    renamed = source.title != title
    if renamed or (origin.url and source.url != origin.url):
        source.title, source.url, source.updated_at = title, origin.url or source.url, Now()
        source.save(update_fields=["title", "url", "updated_at"])
    return source, renamed


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

    def __init__(
        self, source: Source, origin: Origin, report: ImportReport, actor: str, *, everything: bool
    ) -> None:
        self.source, self.report, self.actor = source, report, actor
        self.namespace = origin.namespace or source.slug
        self.whole = origin.whole
        self.everything = everything  # tools of unchanged endpoints may have to follow as well

    def run(self, document: ParsedDocument) -> None:
        known = {
            key: (pk, content_hash, active)
            for pk, key, content_hash, active in self.source.endpoints.values_list(
                "pk", "key", "content_hash", "active"
            )
        }
        specs = self._fit(document.endpoints)
        hashes = {spec.key: spec.content_hash() for spec in specs}
        new = self._without_taken_ids([spec for spec in specs if spec.key not in known])
        old = [spec for spec in specs if spec.key in known]
        changed = [spec for spec in old if known[spec.key][1:] != (hashes[spec.key], True)]
        same = [known[spec.key][0] for spec in old if known[spec.key][1:] == (hashes[spec.key], True)]
        vanished = (
            [pk for key, (pk, _, active) in known.items() if active and key not in hashes]
            if self.whole and document.complete
            else []
        )
        self._add(new, hashes)
        self._change(changed, known, hashes)
        followed = self._follow(same) if self.everything else 0
        self._remove(vanished)
        self.report.removed = len(vanished)
        self.report.changed = len(changed) + followed
        self.report.added = len(new)
        self.report.tools = self.report.operations - len(self.report.left_out)
        self.report.unchanged = self.report.tools - self.report.added - self.report.changed
        self.report.protected = self._protected(hashes)

    def _fit(self, specs: Sequence[EndpointSpec]) -> list[EndpointSpec]:
        reasons = {spec.key: unfit(spec) for spec in specs}
        self.report.left_out += [
            {"operation": key, "reason": reason} for key, reason in reasons.items() if reason is not None
        ]
        return [spec for spec in specs if reasons[spec.key] is None]

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
            before = {endpoint.pk: tool_fields(endpoint, self.source) for endpoint in endpoints}
            for endpoint in endpoints:
                spec = by_id[endpoint.pk]
                for name, value in endpoint_fields(spec).items():
                    setattr(endpoint, name, value)
                endpoint.content_hash, endpoint.active = hashes[spec.key], True
                endpoint.updated_at = Now()
            Endpoint.objects.bulk_update(
                endpoints, [*endpoint_fields(by_id[chunk[0]]), "content_hash", "active", "updated_at"]
            )
            self._project(endpoints, before, reappeared)

    def _follow(self, ids: list[Any]) -> int:
        """Writes the projections of unchanged endpoints anew where they differ; returns how many tools did."""
        followed = 0
        for start in range(0, len(ids), CHUNK):
            endpoints = list(Endpoint.objects.filter(pk__in=sorted(ids)[start : start + CHUNK]))
            before = {endpoint.pk: tool_fields(endpoint, self.source) for endpoint in endpoints}
            followed += self._project(endpoints, before, set())
        return followed

    def _project(
        self, changed: list[Endpoint], before: dict[Any, dict[str, Any]], reappeared: set[Any]
    ) -> int:
        """Writes the tools of these endpoints where they differ from what the source says now, but for what people wrote:
        an override, or a value that is not what the endpoint said `before`. Returns how many were written."""
        endpoints = {endpoint.pk: endpoint for endpoint in changed}
        tools = list(
            Tool.objects.filter(endpoint_id__in=list(endpoints))
            .order_by("pk")
            .select_for_update(of=("self",))
        )
        kept = self._overridden(tools)
        written: list[Tool] = []
        names: set[str] = set()
        for tool in tools:
            tool.endpoint, tool.source = endpoints[tool.endpoint_id], self.source
            by_hand = kept[tool.pk] | self._edited(tool, before[tool.endpoint_id])
            fields = {
                name: value
                for name, value in tool_fields(tool.endpoint, self.source).items()
                if name not in by_hand
            }
            if tool.endpoint_id in reappeared:
                fields["active"] = True
            moved = {name: value for name, value in fields.items() if getattr(tool, name) != value}
            for name, value in moved.items():
                setattr(tool, name, value)
            search_text = embedding.search_text(tool)
            if moved:
                tool.version += 1
                tool.updated_at, tool.updated_by = Now(), self.actor
            if moved or search_text != tool.search_text:  # the latter alone is nothing that a form shows
                tool.search_text = search_text
                written.append(tool)
                names |= moved.keys()
        if written:
            Tool.objects.bulk_update(written, [*names, "search_text", "version", "updated_at", "updated_by"])
        services.put_in_step(tools, priority=Priority.BACKFILL)
        return len(written)

    def _edited(self, tool: Tool, before: dict[str, Any]) -> set[str]:
        """Fields that a person set and that have no override of their own (the category of a file's tool, a lifecycle)."""
        if self.source.sync_wins:
            return set()
        plain = services.EDITABLE_FIELDS.intersection(before).difference(OVERRIDABLE_FIELDS)
        return {name for name in plain if getattr(tool, name) != before[name]}

    def _protected(self, hashes: dict[str, str]) -> int:
        overridden = ManualOverride.objects.filter(tool__source=self.source)
        return len(hashes.keys() & set(overridden.values_list("tool__endpoint__key", flat=True)))

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
