"""Overrides of imported fields (SYN-5): compares them with their source, resets them, keeps them over a newer imported
value, and undoes a reset. `update_tool` makes the rows.

A write locks the tools in the order of their ids, and before more than one of them their sources, which every sync locks
first; what the source says is read under the lock. Each is one transaction, and leaves tools alone that the caller may not see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db.models import QuerySet
from django.db.models.functions import Now

from tools.catalogue import history
from tools.catalogue.errors import CatalogueError
from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.catalogue.projection import field_default, tool_fields
from tools.catalogue.tools import catalogue_write, save_tools
from tools.models import PARAMETER_PREFIX, Endpoint, ManualOverride, Source, Tool

UNDO = timedelta(minutes=10)
_CHUNK = 200
# What of an endpoint says something of an overridable field; the schemas and layers, which are most of it, do not.
_TELLING = ("source_id", "name", "description", "tags", "metadata", "deprecated")


@dataclass(frozen=True, slots=True)
class OverrideStatus:
    """An override against its source: what the source says now, and whether that is neither what was overridden nor what the
    operator wrote."""

    pk: UUID
    tool_id: UUID
    tool_name: str
    field: str
    made_at: datetime
    imported: object
    conflict: bool
    gone: bool = False  # a parameter that the source no longer has


def override_statuses(overrides: QuerySet[ManualOverride]) -> list[OverrideStatus]:
    """How each of them stands, conflicts first, then by tool and field. Three queries, however many there are."""
    columns = {name: f"tool__endpoint__{name}" for name in _TELLING}
    rows = list(
        overrides.order_by().values(
            "pk", "tool_id", "tool__name", "field", "made_at", "value", "imported_value", *columns.values()
        )
    )
    sources = Source.objects.in_bulk({row["tool__endpoint__source_id"] for row in rows} - {None})
    texts = _parameter_texts({row["tool_id"] for row in rows if row["field"].startswith(PARAMETER_PREFIX)})
    fields: dict[UUID, dict[str, object]] = {}
    found = []
    for row in rows:
        field, tool_id = row["field"], row["tool_id"]
        if field.startswith(PARAMETER_PREFIX):
            provided: Mapping[str, object] = texts[tool_id]
        else:
            if tool_id not in fields:
                endpoint = Endpoint(
                    input_schema={}, **{name: row[column] for name, column in columns.items()}
                )
                fields[tool_id] = tool_fields(endpoint, sources[endpoint.source_id])
            provided = fields[tool_id]
        imported = provided.get(field, field_default(field))
        found.append(
            OverrideStatus(
                row["pk"], tool_id, row["tool__name"], field, row["made_at"], imported,
                conflict=imported not in (row["imported_value"], row["value"]),
                gone=field.startswith(PARAMETER_PREFIX) and field not in provided,
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: (not one.conflict, one.tool_name, str(one.tool_id), one.field))


def _parameter_texts(tools: set[UUID]) -> dict[UUID, dict[str, str]]:
    """The imported descriptions of the tools' parameters, by the field that overrides each."""
    schemas = Tool.objects.filter(pk__in=tools).values_list("pk", "endpoint__input_schema")
    return {
        pk: {f"{PARAMETER_PREFIX}{name}": text for name, text in parameter_descriptions(schema).items()}
        for pk, schema in schemas
    }


def conflicts(overrides: QuerySet[ManualOverride]) -> set[UUID]:
    """The ids of those that are in conflict with what their source says now."""
    return {one.pk for one in override_statuses(overrides) if one.conflict}


def reset_many(*, overrides: Collection[UUID], actor: str, reset: UUID | None = None) -> int:
    """Brings back what the sources say today; returns how many of these overrides there still were. `reset` is the name by
    which `undo_reset` finds what was done here."""
    wanted, done = set(overrides), 0
    with catalogue_write(actor, reset=str(reset or uuid4())):
        for tools in _locked(wanted):
            rows = [row for row in ManualOverride.objects.filter(tool__in=tools) if row.pk in wanted]
            ManualOverride.objects.filter(pk__in=[row.pk for row in rows]).delete()
            _follow(tools, rows, actor)
            done += len(rows)
    return done


def keep_many(*, overrides: Collection[UUID], actor: str) -> int:
    """Ends the conflict of those that are in one, in favour of what the operator wrote; returns how many were."""
    wanted, done = set(overrides), 0
    with catalogue_write(actor):
        for tools in _locked(wanted):
            mine = ManualOverride.objects.filter(tool__in=tools)
            newer = {
                one.pk: one.imported for one in override_statuses(mine) if one.conflict and one.pk in wanted
            }
            rows = list(mine.filter(pk__in=newer))
            for row in rows:
                row.imported_value = newer[row.pk]
            ManualOverride.objects.bulk_update(rows, ["imported_value"])
            kept = {row.tool_id for row in rows}
            save_tools({tool: () for tool in tools if tool.pk in kept}, actor)
            done += len(rows)
    return done


def undo_reset(*, reset: UUID, actor: str) -> tuple[int, int]:
    """Takes a reset of the last ten minutes back; returns how many overrides are there again, and how many tools were left
    alone because they have changed since. Raises CatalogueError, and then all is as it was."""
    deleted = list(
        history.events(ManualOverride)
        .filter(pgh_label="delete", pgh_context__reset=str(reset), pgh_created_at__gt=Now() - UNDO)
        .values("id", "tool_id", "field", "value", "imported_value", "made_by", "made_at")
    )
    if not deleted:
        raise CatalogueError(
            "A reset can be undone for ten minutes, and this one is over. The history keeps the old text."
        )
    by_tool: dict[UUID, list[ManualOverride]] = {}
    for row in deleted:
        by_tool.setdefault(row["tool_id"], []).append(ManualOverride(**row))
    done, changed = 0, []
    with catalogue_write(actor, undo=str(reset)):
        for tools in _locked_tools(by_tool.keys()):
            after = _versions_after(reset, tools)
            untouched = [tool for tool in tools if after.get(tool.pk) == tool.version]
            changed += [tool for tool in tools if after.get(tool.pk) != tool.version]
            rows = [row for tool in untouched for row in by_tool[tool.pk]]
            ManualOverride.objects.bulk_create(rows)
            _follow(untouched, rows, actor)
            done += len(rows)
        if not done and changed:
            raise CatalogueError(
                f"{changed[0].updated_by or 'Somebody'} changed {changed[0].name} after the reset, so it was not undone. "
                "The history keeps the old text."
            )
    return done, len(changed)


def _versions_after(reset: UUID, tools: Iterable[Tool]) -> dict[UUID, int]:
    """The version that the reset gave each of the tools."""
    return dict(
        history.events(Tool)
        .filter(pgh_obj_id__in=[tool.pk for tool in tools], pgh_context__reset=str(reset))
        .order_by("pgh_id")
        .values_list("pgh_obj_id", "version")
    )


def _locked(overrides: Collection[UUID]) -> Iterable[list[Tool]]:
    tools = ManualOverride.objects.filter(pk__in=overrides).values_list("tool_id", flat=True).distinct()
    return _locked_tools(list(tools))


def _locked_tools(ids: Collection[UUID]) -> Iterable[list[Tool]]:
    """The tools, some at a time, each locked with what its source says as it is then."""
    ordered = sorted(ids)
    if len(ordered) > 1:
        sources = Tool.objects.filter(pk__in=ordered).values_list("source_id", flat=True).distinct()
        list(Source.objects.filter(pk__in=list(sources)).order_by("pk").select_for_update(no_key=True))
    for start in range(0, len(ordered), _CHUNK):
        # No join to the endpoint: a write that waited for a sync here reads it as it is after it.
        yield list(
            Tool.objects.seen()
            .filter(pk__in=ordered[start : start + _CHUNK], endpoint__isnull=False)
            .order_by("pk")
            .select_for_update(of=("self",), no_key=True)
            .prefetch_related("endpoint", "source")
        )


def _follow(tools: Iterable[Tool], moved: Iterable[ManualOverride], actor: str) -> None:
    """Writes the fields of overrides that came or went as their source and the overrides of now have them."""
    fields: dict[UUID, set[str]] = {}
    for row in moved:
        fields.setdefault(row.tool_id, set()).add(row.field)
    overrides: dict[UUID, dict[str, object]] = {pk: {} for pk in fields}
    for pk, field, value in ManualOverride.objects.filter(tool_id__in=list(fields)).values_list(
        "tool_id", "field", "value"
    ):
        overrides[pk][field] = value
    written: dict[Tool, set[str]] = {}
    for tool in tools:
        if tool.pk not in fields:
            continue
        projected = tool_fields(*tool.backing, overrides[tool.pk])
        columns = {"parameters" if field.startswith(PARAMETER_PREFIX) else field for field in fields[tool.pk]}
        if "description" in columns:
            columns.add("description_source")
        for column in columns:
            setattr(tool, column, projected.get(column, field_default(column)))
        written[tool] = columns
    save_tools(written, actor)
