"""The fields of a tool in one table: who may set each of them, where it is searched, said by a file and shown.

Pure, so that the models below and the parsers of the child process above read it alike. A column's type, length and choices
stand in tools/models/tool.py alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Group = Literal["", "Classification", "Availability", "Schemas", "Record"]


@dataclass(frozen=True, slots=True)
class ToolField:
    """One field.

    `editable`: a person may set it. `overridable`: an import fills it as well, and a person's value stays over the imported one
    (SYN-5). `source_owned`: of an imported tool nobody but its source sets it. `searchable`: its text is embedded and searched
    by words; tool_text.py has a place for some, the others are topics. `in_files`: how a file of tools gives it
    where an endpoint has no column for it; formats/lightapi/document.py names the fields that a LightAPI description
    gives. `label` is its name within a sentence. `group` is its part of
    the admin's form.
    """

    name: str
    group: Group = ""
    editable: bool = False
    overridable: bool = False
    source_owned: bool = False
    searchable: bool = False
    in_files: Literal["", "text", "list", "flag"] = ""
    label: str = ""

    @property
    def words(self) -> str:
        """The field's name within a sentence."""
        return self.label or self.name.replace("_", " ")


def _overridable(name: str, group: Group = "", **kwargs: Any) -> ToolField:
    return ToolField(name, group, editable=True, overridable=True, **kwargs)


FIELDS = (
    ToolField("tool_id"),
    ToolField("namespace", searchable=True),
    _overridable("name", searchable=True),
    _overridable("description", searchable=True),
    ToolField("description_source", "Record"),
    _overridable("tool_type", "Classification", searchable=True, in_files="text"),
    _overridable("category", "Classification", searchable=True, in_files="text"),
    _overridable("subcategory", "Classification", searchable=True, in_files="text"),
    _overridable("tags", searchable=True),
    _overridable("tech_stack", "Classification", in_files="list"),
    _overridable("use_cases", searchable=True, in_files="list"),
    _overridable("routing_domain", "Classification", searchable=True, in_files="text", label="domain"),
    _overridable("semantic_namespace", "Classification", searchable=True, in_files="text"),
    ToolField("source_protocol", searchable=True, in_files="text"),
    ToolField("server", searchable=True, in_files="text"),
    _overridable("sensitivity", "Availability", in_files="text"),
    _overridable("target_personas", "Classification", searchable=True, in_files="list"),
    ToolField(
        "parameters", "Schemas", editable=True, source_owned=True, searchable=True, label="input schema"
    ),
    ToolField("output", "Schemas", editable=True, source_owned=True, label="output schema"),
    _overridable("annotations", "Schemas"),
    ToolField("semantic_weight", "Availability", editable=True),
    _overridable("visibility", "Availability", in_files="text"),
    _overridable("lifecycle", "Availability", in_files="text"),
    _overridable("owner", "Classification", in_files="text"),
    ToolField("official", "Availability", editable=True),
    ToolField("active", editable=True),
    _overridable("core", "Availability", in_files="flag"),
    ToolField("estimated_cost", "Availability", editable=True),
)
"""Every field that describes a tool, in the order of the API's answers."""

BY_NAME = {field.name: field for field in FIELDS}
IDENTITY = ("tool_id", "namespace", "source_protocol", "server")
"""What is chosen when a tool is made, and never changed by a person."""
EDITABLE = tuple(field.name for field in FIELDS if field.editable)
OVERRIDABLE = tuple(field.name for field in FIELDS if field.overridable)
SOURCE_OWNED = tuple(field.name for field in FIELDS if field.source_owned)
SEARCHABLE = tuple(field.name for field in FIELDS if field.searchable)


def in_group(group: Group) -> tuple[str, ...]:
    """The names of the fields of a group, in the order of the table."""
    return tuple(field.name for field in FIELDS if field.group == group)


def in_files(form: str) -> tuple[str, ...]:
    """The names of the fields that a file gives in this form."""
    return tuple(field.name for field in FIELDS if field.in_files == form)
