"""Plans a sync: compares a document with the endpoints of its source, and writes nothing (SYN-4). Applying makes the same
plan again under the source's lock, so that what is written is what was shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from uuid import UUID

from django.db.models import Q

from tools.catalogue.projection import dropped_fields, is_provided, tool_fields, validation_error
from tools.imports.formats.references import Warnings
from tools.imports.formats.specs import SPEC_FIELDS, EndpointSpec
from tools.imports.formats.texts import truncate
from tools.imports.syncing import layers
from tools.imports.syncing.changes import ImportReport, LayeredDocument, Plan, PlannedChange
from tools.imports.syncing.differences import field_change, field_changes
from tools.imports.syncing.identity import (
    ExistingEndpoint,
    Matches,
    match_endpoints,
    operation_id_of,
    vacated_key,
    with_kept_names,
)
from tools.models import Action, Endpoint, Layer, ManualOverride, Source, SourceKind, Tool

CHUNK = 200
NOT_IN_SOURCE = "the source has no such operation, and a LightAPI description adds none to it"

ID_TAKEN = "the tool_id exists already"


def make_plan(source: Source, parsed: LayeredDocument) -> Plan:
    """Compares the document with the source, which may be a new one that is not saved. `source.document_title` is what it will be."""
    return _Planner(source, parsed).plan()


class _Planner:
    """Makes one plan: the endpoints that the source will have, compared with the stored ones."""

    def __init__(self, source: Source, parsed: LayeredDocument) -> None:
        self.source, self._parsed, self.document = source, parsed, parsed.document
        self.report = ImportReport(
            source=source.slug,
            operations=self.document.operations,
            left_out=[asdict(entry) for entry in self.document.left_out],
        )
        self._warnings = Warnings()
        self.existing = {one.key: one for one in self._existing_endpoints()}
        self.base = layers.base_layer(source.kind)
        # A LightAPI source consists of what other kinds only have beside their documents, and leave out where no lower layer has it.
        self._overlays_stand_alone = self.base != Layer.EXTRACTION
        self._specs_by_layer: dict[str, dict[Layer, EndpointSpec]] = {}  # of a source with several documents

    def plan(self) -> Plan:
        wanted, mentioned = self._future_endpoints()
        self._leave_out_taken_ids(wanted)
        matches = self._matches({key: operation_id_of(one.spec) for key, one in wanted.items()})
        self._tell_unsure(matches)
        gone = self._removed_endpoints(matches.by_key)
        moved, new = self._moved_and_new(wanted, matches.by_key)
        for one in new:
            one.fields = [field_change("description", None, one.spec.description if one.spec else "")]
        changed, same = self._compare_with_existing(wanted, matches.by_key)
        described = self._with_differences([*changed, *moved], only_changed=False)
        # A new title shows in every tool, and a source whose syncs win resets what was edited meanwhile.
        retitled = self._with_differences(same, only_changed=True) if self._must_compare_unchanged() else []
        removed = self._removals(gone, wanted)
        changes = sorted([*new, *described, *retitled, *removed], key=lambda one: one.key)
        report = self.report
        report.added, report.moved, report.removed = len(new), len(moved), len(removed)
        report.changed = len(changed) + len(retitled)
        report.tools = report.operations - len(report.left_out)
        report.unchanged = len((mentioned & wanted.keys()) - {one.key for one in changes})
        report.conflicts = sum(one.conflict for one in changes)
        report.protected = self._count_protected(wanted, {one.old_key for one in moved})
        # A plan that is applied has the warnings of its first making already.
        report.warnings = list(dict.fromkeys((*self.document.warnings, *self._warnings.all())))
        return Plan(changes, report, active=sum(one.active for one in self.existing.values()))

    def _existing_endpoints(self) -> Iterator[ExistingEndpoint]:
        if self.source.is_new:
            return
        # Not the layers themselves, which are most of the data of a large source.
        rows = self.source.endpoints.annotate(layered=~Q(layers={})).values_list(
            "pk", "key", "content_hash", "active", "metadata__operation_id", "name", "layered"
        )
        for row in rows.iterator():
            yield ExistingEndpoint(*row)

    # The endpoints that the source will have ----------------------------------------------------------------------------
    def _future_endpoints(self) -> tuple[dict[str, PlannedChange], set[str]]:
        """The endpoints that the source will have, by key, and the keys that this document describes."""
        specs = self._with_kept_names(self._storable(self.document.endpoints))
        is_alone = self._parsed.layer == self.base and not any(one.layered for one in self.existing.values())
        if not is_alone:
            return self._layered(specs)
        wanted = {spec.key: self._merged(spec.key, {self.base: spec}) for spec in specs}
        return wanted, set(wanted)

    def _with_kept_names(self, specs: list[EndpointSpec]) -> list[EndpointSpec]:
        """Only of kinds whose names are made from the operations; MCP servers and files of tools say the names themselves."""
        if (
            self.source.kind not in (SourceKind.OPENAPI, SourceKind.LIGHTAPI)
            or self._parsed.layer != self.base
        ):
            return specs
        matches = self._matches({spec.key: operation_id_of(spec) for spec in specs}).by_key
        matched = {one.pk for one in matches.values()}
        stay = [one for one in self.existing.values() if one.active and one.pk not in matched]
        return with_kept_names(specs, matches, () if self._is_whole else (one.name for one in stay))

    def _layered(self, specs: Sequence[EndpointSpec]) -> tuple[dict[str, PlannedChange], set[str]]:
        """Merges every endpoint of the source from all of its documents, this one included."""
        base, layer = self.base, self._parsed.layer
        specs_by_key = self._specs_by_layer
        endpoints = () if self.source.is_new else self.source.endpoints.iterator(chunk_size=CHUNK)
        for endpoint in endpoints:
            stored = {Layer(name): EndpointSpec.from_json(one) for name, one in endpoint.layers.items()}
            if endpoint.active:
                specs_by_key[endpoint.key] = stored or {base: spec_of_endpoint(endpoint)}
            else:
                # It was removed; what other documents say about it is kept for its return.
                specs_by_key[endpoint.key] = {} if self._overlays_stand_alone else stored
                specs_by_key[endpoint.key].pop(base, None)
        known = layers.EndpointIndex(
            {
                key: layers.merge_layers(by_layer)[0]
                for key, by_layer in specs_by_key.items()
                if self._exists(by_layer)
            }
        )
        mentioned: set[str] = set()
        for spec in specs:
            key: str | None = spec.key
            if layer != base:
                key = known.key_of(spec) or (spec.key if self._overlays_stand_alone else None)
            if key is None:
                self._leave_out(spec.key, NOT_IN_SOURCE)
            elif key in mentioned:
                self._leave_out(spec.key, f"{key} is described already by another operation of the document")
            else:
                mentioned.add(key)
                specs_by_key.setdefault(key, {})[layer] = spec
        if self._is_whole:
            for key, by_layer in specs_by_key.items():
                if key not in mentioned:
                    by_layer.pop(layer, None)
        existing = ((key, by_layer) for key, by_layer in specs_by_key.items() if self._exists(by_layer))
        return {key: self._merged(key, by_layer) for key, by_layer in existing}, mentioned

    def _exists(self, by_layer: Mapping[Layer, EndpointSpec]) -> bool:
        """Whether these layers make an endpoint; other documents may still describe one that was removed."""
        return self.base in by_layer or bool(by_layer and self._overlays_stand_alone)

    def _merged(self, key: str, by_layer: Mapping[Layer, EndpointSpec]) -> PlannedChange:
        spec, warnings = layers.merge_layers(by_layer)
        for sentence in warnings:
            self._warnings.add(sentence)
        has_more = by_layer.keys() != {self.base}
        stored = {layer.value: one.as_json() for layer, one in by_layer.items()} if has_more else {}
        return PlannedChange(Action.ADD, key, spec, spec.content_hash(stored), stored, name=spec.name)

    @property
    def _is_whole(self) -> bool:
        return self._parsed.incoming.is_whole and self.document.complete

    def _storable(self, specs: Sequence[EndpointSpec]) -> list[EndpointSpec]:
        reasons = {spec.key: validation_error(spec) for spec in specs}
        for key, reason in reasons.items():
            if reason is not None:
                self._leave_out(key, reason)
        return [spec for spec in specs if reasons[spec.key] is None]

    def _leave_out(self, key: str, reason: str) -> None:
        self.report.left_out.append({"operation": key, "reason": reason})

    def _leave_out_taken_ids(self, wanted: dict[str, PlannedChange]) -> None:
        """Leaves out tools whose id another source's tool has, because the ids of a file are kept verbatim."""
        if self.source.kind != SourceKind.MANUAL:
            return
        namespace = self._parsed.incoming.namespace
        same_id = Tool.objects.filter(namespace=namespace, tool_id__in=wanted.keys() - self.existing.keys())
        for key in same_id.values_list("tool_id", flat=True):
            del wanted[key]
            self._leave_out(key, f"{ID_TAKEN} in namespace {namespace}")

    # Compared with the stored endpoints ---------------------------------------------------------------------------------
    def _matches(self, wanted: Mapping[str, str]) -> Matches:
        # An operation of OpenAPI is known by its operationId; an endpointId of LightAPI or a tool's name is the key itself.
        return match_endpoints(
            wanted,
            self.existing.values(),
            is_whole=self._is_whole,
            ids_win=self.source.kind == SourceKind.OPENAPI,
        )

    def _tell_unsure(self, matches: Matches) -> None:
        for key in matches.unsure:
            self._warnings.add(
                f"{truncate(key, 200)}: its operationId is also that of another operation, before or after, so it could be "
                "either tool; it stays the one of its path."
            )

    def _removed_endpoints(self, matches: Mapping[str, ExistingEndpoint]) -> list[ExistingEndpoint]:
        if not self._is_whole:
            return []
        found = {one.pk for one in matches.values()}
        return [one for one in self.existing.values() if one.active and one.pk not in found]

    def _compare_with_existing(
        self, wanted: Mapping[str, PlannedChange], matches: Mapping[str, ExistingEndpoint]
    ) -> tuple[list[PlannedChange], list[PlannedChange]]:
        changed: list[PlannedChange] = []
        same: list[PlannedChange] = []
        for key, one in wanted.items():
            known = matches.get(key)
            if known is not None and known.key == key:
                one.action, one.endpoint_id = Action.CHANGE, known.pk
                is_same = (known.content_hash, known.active) == (one.content_hash, True)
                (same if is_same else changed).append(one)
        return changed, same

    def _moved_and_new(
        self, wanted: Mapping[str, PlannedChange], matches: Mapping[str, ExistingEndpoint]
    ) -> tuple[list[PlannedChange], list[PlannedChange]]:
        """Operations that moved to another path with the same operationId, which stay the same tool (SYN-6), and new ones."""
        moved: list[PlannedChange] = []
        new: list[PlannedChange] = []
        for key, one in wanted.items():
            old = matches.get(key)
            if old is not None and old.key == key:
                continue
            described = self._with_layers_of(one, old)
            if old is None:
                new.append(described)
            else:
                described.action, described.old_key, described.endpoint_id = Action.MOVE, old.key, old.pk
                moved.append(described)
        return moved, new

    def _with_layers_of(self, one: PlannedChange, old: ExistingEndpoint | None) -> PlannedChange:
        """The change with what the other documents say of the operation that it is, not of the one that stood at its path."""
        own = self._specs_by_layer.get(one.key)
        if own is None or self.base not in own or (old is None and one.key not in self.existing):
            return one
        others = self._specs_by_layer.get(old.key, {}) if old else {}
        return self._merged(one.key, {**others, self.base: own[self.base]})

    def _removals(
        self, gone: list[ExistingEndpoint], wanted: Mapping[str, PlannedChange]
    ) -> list[PlannedChange]:
        found = Tool.objects.filter(endpoint__in=[one.pk for one in gone])
        tools: dict[UUID | None, tuple[UUID | None, str]] = {
            endpoint: (pk, name) for endpoint, pk, name in found.values_list("endpoint_id", "pk", "name")
        }
        removed = []
        for one in gone:
            change = PlannedChange(Action.REMOVE, one.key, None, endpoint_id=one.pk)
            change.tool_uuid, change.name = tools.get(one.pk, (None, one.key))
            if one.key in wanted:
                change.key, change.old_key = vacated_key(one.key, one.pk), one.key
            removed.append(change)
        return removed

    def _must_compare_unchanged(self) -> bool:
        if self.source.is_new or self.source.kind == SourceKind.MANUAL:
            return not self.source.is_new and self.source.sync_wins
        # Compared with the tools, not with the stored title: a sync that was applied in part left other tools with the old one.
        behind = self.source.tools.filter(endpoint__active=True).exclude(server=self.source.display_title)
        return self.source.sync_wins or bool(behind.exists())

    def _count_protected(self, wanted: Mapping[str, PlannedChange], old_keys: set[str]) -> int:
        if self.source.is_new or self.source.sync_wins:
            return 0
        keys = ManualOverride.objects.filter(tool__source=self.source).values_list(
            "tool__endpoint__key", flat=True
        )
        return len((wanted.keys() | old_keys) & set(keys))

    # Field by field -----------------------------------------------------------------------------------------------------
    def _with_differences(
        self, planned: Sequence[PlannedChange], *, only_changed: bool
    ) -> list[PlannedChange]:
        """The same with the differences of their tools; with `only_changed` only those that have any."""
        ordered = sorted(planned, key=lambda one: str(one.endpoint_id))
        described: list[PlannedChange] = []
        for start in range(0, len(ordered), CHUNK):
            chunk = {one.endpoint_id: one for one in ordered[start : start + CHUNK]}
            tools = Tool.objects.filter(endpoint_id__in=list(chunk)).select_related("endpoint")
            for tool in tools.prefetch_related("overrides"):
                one = chunk[tool.endpoint_id]
                self._describe(one, tool)
                if one.fields or not only_changed:
                    described.append(one)
        return described

    def _describe(self, planned: PlannedChange, tool: Tool) -> None:
        endpoint, spec = tool.endpoint, planned.spec
        if endpoint is None or spec is None:
            raise ValueError("only a tool with an endpoint, before and after, has differences")
        planned.tool_uuid, planned.name = tool.pk, tool.name
        overrides = {one.field: one.value for one in tool.overrides.all()}
        # A field that the source does not provide keeps its override, even where syncs win.
        dropped = {
            name: value
            for name, value in dropped_fields(endpoint, spec).items()
            if not (self.source.sync_wins and name in overrides)
        }
        before, after = tool_fields(endpoint, self.source), dropped | tool_fields(spec, self.source)
        changes = field_changes(tool, before, after, overrides, sync_wins=self.source.sync_wins)
        planned.fields = list(changes)
        planned.kept = sorted(
            name
            for name in overrides.keys() - {one["field"] for one in planned.fields}
            if not (self.source.sync_wins and is_provided(name, spec, self.source))
        )
        if planned.old_key:
            planned.fields.insert(0, field_change("key", planned.old_key, planned.key))
        if not endpoint.active and endpoint.deactivated_tool:
            planned.fields.insert(0, field_change("active", before=False, after=True))


def spec_of_endpoint(endpoint: Endpoint) -> EndpointSpec:
    """What a stored endpoint says."""
    return EndpointSpec.from_json({name: getattr(endpoint, name) for name in SPEC_FIELDS})
