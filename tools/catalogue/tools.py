"""What people write to a tool. A service is one transaction of the current tenant, takes no request, and leaves the embedding
pipeline and the search text in step with what it wrote. Overrides are decided in tools/catalogue/overrides.py, sources changed in
tools/catalogue/sources.py, and imports write through tools/imports/syncing/apply.py; all use the same `sync_embeddings`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F, Model
from django.db.models.functions import Now

from embeddings.models import Priority
from embeddings.queue.enqueue import EmbeddingRequest, delete_tasks, enqueue
from metrics.statistics import delete_statistics
from portal.http.bodies import storage_problem
from portal.http.history_context import history_context
from tools.catalogue import embedding_text
from tools.catalogue.errors import Invalid, ManagedBySource, StaleVersion, translated
from tools.catalogue.parameter_descriptions import parameter_descriptions, with_descriptions
from tools.catalogue.projection import field_default, in_one_line, tool_fields
from tools.catalogue.visibility import require_writable
from tools.fields import EDITABLE, IDENTITY, OVERRIDABLE
from tools.models import (
    PARAMETER_PREFIX,
    DescriptionSource,
    Endpoint,
    ManualOverride,
    Tool,
)
from tools.models.override import FIELD_LENGTH

# Why these fields of an imported tool are not changed here.
_SOURCE_OWNED = {
    "parameters": "What this tool takes comes from its source and cannot be changed here. To say more of a parameter, "
    "change its description (parameter_descriptions).",
    "output": "What this tool gives back comes from its source and cannot be changed here. Say what you know of it in the "
    "description.",
}

MAX_BYTES = 100_000
"""Of what people write of one tool, in all. A page of a list has a hundred tools, and a web process holds it whole."""
_UNBOUNDED = (
    "description",
    "tags",
    "tech_stack",
    "use_cases",
    "target_personas",
    "parameters",
    "output",
    "annotations",
)


@contextmanager
def catalogue_write(actor: str, **context: str) -> Iterator[None]:
    """One atomic write with its author in the history, and what else is to stand there; the database's refusals become
    CatalogueErrors."""
    try:
        with transaction.atomic(), history_context(actor, **context):
            yield
    except (IntegrityError, OperationalError) as error:
        known = translated(error)
        if known is None:
            raise
        raise known from error


def refuse_unknown_fields(given: Iterable[str], known: Container[str]) -> None:
    """Raises Invalid for fields that nobody may set."""
    if unknown := [name for name in given if name not in known]:
        raise Invalid({name: ["This field cannot be set."] for name in sorted(unknown)})


def validate_fields(row: Model, given: Mapping[str, object], *, exclude: Collection[str]) -> None:
    """Raises Invalid for given values that cannot be stored, and where the model refuses its fields but those of `exclude`.
    Every entry point comes through here: a NUL in a form's JSON is refused like one in a body of the API."""
    reasons = {name: storage_problem(value) for name, value in given.items()}
    if problems := {name: [f"This value {reason}."] for name, reason in reasons.items() if reason}:
        raise Invalid(problems)
    try:
        row.clean_fields(exclude)
    except ValidationError as error:
        raise Invalid(error.message_dict) from error


def create_tool(*, actor: str, **fields: Any) -> Tool:
    """A tool written by hand. Raises Invalid, BeyondRights, and NameTaken, whether or not the caller may see the tool that has
    the name: names are unique."""
    refuse_unknown_fields(fields, {*EDITABLE, *IDENTITY})
    fields = {name: in_one_line(value) for name, value in fields.items()}
    tool = Tool(**fields, updated_by=actor)
    _validate(tool, fields)
    require_writable([tool])
    with catalogue_write(actor):
        tool.search_text = embedding_text.search_text(tool)
        tool.save(force_insert=True)
        sync_embeddings([tool])
    return tool


def update_tool(*, pk: UUID, expected_version: int, changes: Mapping[str, object], actor: str) -> Tool:
    """Saves a person's edit if the tool still has the version that they saw; an edit that changes nothing writes nothing.

    `changes` holds fields, and in "parameter_descriptions" texts by name of parameter. Overwriting what the source of an
    endpoint-backed tool says records a ManualOverride; writing the imported value itself removes it. Raises StaleVersion,
    Invalid, BeyondRights, and Tool.DoesNotExist, also for a tool that the caller may not see.
    """
    refuse_unknown_fields(changes, {*EDITABLE, "parameter_descriptions"})
    with catalogue_write(actor):
        tool = _locked(pk)
        if tool.version != expected_version:
            raise StaleVersion(tool)
        changed = {
            name: line
            for name, value in changes.items()
            if name != "parameter_descriptions"
            and getattr(tool, name) not in (value, line := in_one_line(value))
        }
        if tool.endpoint_id is not None and (refused := changed.keys() & _SOURCE_OWNED.keys()):
            raise Invalid({name: [_SOURCE_OWNED[name]] for name in sorted(refused)})
        for name, value in changed.items():
            setattr(tool, name, value)
        _validate(tool, changed)
        texts = _changed_texts(tool, changes.get("parameter_descriptions", {}))
        if not changed and not texts:
            return tool
        if texts:
            tool.parameters = with_descriptions(tool.parameters, texts)
        fields = {*changed, *(["parameters"] if texts else [])}
        if tool.endpoint is not None:
            edits = {**changed, **{f"{PARAMETER_PREFIX}{name}": text for name, text in texts.items()}}
            fields |= _record_overrides(tool, edits, actor)
            if "active" in changed:
                # From here on it is the operator's word, whatever its endpoint does.
                Endpoint.objects.filter(pk=tool.endpoint.pk, deactivated_tool=True).update(
                    deactivated_tool=False
                )
        save_tools({tool: fields}, actor)
    return tool


def delete_tool(*, pk: UUID, actor: str, expected_version: int | None = None) -> None:
    """Removes a tool with its vectors, tasks and statistics; its history stays. Raises StaleVersion, and ManagedBySource for an
    endpoint-backed one, which is deactivated instead, because the next sync would only bring it back."""
    with catalogue_write(actor):
        tool = _locked(pk)
        if expected_version is not None and tool.version != expected_version:
            raise StaleVersion(tool)
        if tool.endpoint_id is not None:
            raise ManagedBySource(
                f"{tool.name} comes from the source {tool.source}, whose next sync would bring it back. Deactivate it instead."
            )
        delete_tasks(embedding_text.ENTITY.type, [pk])
        delete_statistics([pk])
        tool.delete()


def refresh_embeddings(*, pks: Iterable[UUID]) -> int:
    """Asks for new vectors of these tools (Refresh Embedding); returns how many have a task now. Safe to repeat."""
    with catalogue_write("Refresh Embedding"):
        # Locked, because an edit in between would leave the embedding waiting for a text that is gone.
        tools = list(
            Tool.objects.seen().active().filter(pk__in=list(pks))
            .order_by("pk").select_for_update(no_key=True).prefetch_related("endpoint", "source")
        )  # fmt: skip
        return sync_embeddings(tools, refresh=True)


def sync_embeddings(
    tools: Sequence[Tool], *, refresh: bool = False, priority: Priority = Priority.EDIT
) -> int:
    """Makes the embeddings follow the tools, in the caller's transaction (EMB-2). The tools carry endpoint and source."""
    return enqueue(
        embedding_text.ENTITY,
        [
            EmbeddingRequest(
                tool.pk, embedding_text.source_text(tool), active=tool.active, version=tool.version
            )
            for tool in tools
        ],
        refresh=refresh,
        priority=priority,
    )


def _locked(pk: UUID) -> Tool:
    # Without a join to endpoint and source: a write that waited for a sync here reads them as they are after it.
    return Tool.objects.seen().select_for_update(no_key=True).get(pk=pk)


def _validate(tool: Tool, given: Mapping[str, object]) -> None:
    validate_fields(tool, given, exclude={"tenant", "source", "endpoint"})
    objects = {
        "parameters": tool.parameters,
        "annotations": tool.annotations,
        "output": {} if tool.output is None else tool.output,
    }
    for field, value in objects.items():
        if not isinstance(value, dict):
            raise Invalid({field: ["Must be a JSON object."]})
    _require_small(tool, given)


def _require_small(tool: Tool, given: Mapping[str, object]) -> None:
    """Raises Invalid where the given values make the tool larger than one may be."""
    long = [name for name in _UNBOUNDED if tool.endpoint_id is None or name not in _SOURCE_OWNED]
    size = sum(len(json.dumps(getattr(tool, name), ensure_ascii=False).encode()) for name in long)
    if size > MAX_BYTES and (filled := [name for name in long if given.get(name)]):
        sentence = f"The texts, lists and schemas of a tool may have {MAX_BYTES // 1000} kB together; these have {size // 1000:,}."
        raise Invalid({name: [sentence] for name in filled})


def _changed_texts(tool: Tool, given: object) -> dict[str, str]:
    """The descriptions of parameters that differ from what the tool has. Raises Invalid."""
    known = parameter_descriptions(tool.parameters)
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise Invalid({"parameter_descriptions": ["Must be an object of texts by name of parameter."]})
    problems = [f"There is no parameter “{name}”." for name in given if name not in known]
    problems += [
        f"The description of “{name}” {reason}."
        for name, text in given.items()
        if (reason := storage_problem(text))
    ]
    if tool.endpoint_id is not None:
        most = FIELD_LENGTH - len(PARAMETER_PREFIX)
        problems += [
            f"“{name[:60]}…” has too long a name: at most {most} characters can be told apart."
            for name, text in given.items()
            if len(name) > most and text != known.get(name)
        ]
    if sum(len(text.encode(errors="replace")) for text in {**known, **given}.values()) > MAX_BYTES:
        problems.append(f"The descriptions of a tool's parameters may have {MAX_BYTES // 1000} kB together.")
    if problems:
        raise Invalid({"parameter_descriptions": problems})
    return {name: text for name, text in given.items() if text != known[name]}


def _record_overrides(tool: Tool, edits: Mapping[str, object], actor: str) -> set[str]:
    """Records or removes the override of each edited field; returns the columns that follow.

    A field that the source does not provide is recorded as well, since its next version may provide it; and so is an edit
    under a source whose syncs win, which lasts until the next one.
    """
    endpoint, source = tool.backing
    imported = embedding_text.imported_values(endpoint, source)
    overrides = dict(ManualOverride.objects.filter(tool=tool).values_list("field", "value"))
    missing = {*OVERRIDABLE, *overrides} - imported.keys()
    imported |= {field: field_default(field) for field in missing}
    edited = {field: value for field, value in edits.items() if field in imported}
    for field, value in edited.items():
        if value == imported[field]:
            overrides.pop(field, None)
        else:
            overrides[field] = value
    ManualOverride.objects.filter(tool=tool, field__in=edited.keys() - overrides.keys()).delete()
    for field in edited.keys() & overrides.keys():
        ManualOverride.objects.update_or_create(
            tool=tool,
            field=field,
            defaults={
                "value": edited[field], "imported_value": imported[field], "made_by": actor, "made_at": Now(),
            },
        )  # fmt: skip
    if any(field.startswith(PARAMETER_PREFIX) for field in edited):
        tool.parameters = tool_fields(endpoint, source, overrides)["parameters"]
    if "description" in edited:
        tool.description_source = (
            DescriptionSource.MANUAL if "description" in overrides else DescriptionSource.ENDPOINT_SYNC
        )
        return {"description_source"}
    return set()


def save_tools(
    fields: Mapping[Tool, Collection[str]], actor: str, *, priority: Priority = Priority.EDIT
) -> None:
    """Writes these fields of locked tools, and what follows from them, with a raised version (EMB-2). Raises BeyondRights."""
    require_writable(fields)
    for tool, names in fields.items():
        tool.search_text = embedding_text.search_text(tool)
        values = {name: getattr(tool, name) for name in {*names, "search_text"}}
        Tool.objects.filter(pk=tool.pk, version=tool.version).update(
            **values, version=F("version") + 1, updated_at=Now(), updated_by=actor
        )
        tool.version += 1
        tool.updated_by = actor
    sync_embeddings(list(fields), priority=priority)
