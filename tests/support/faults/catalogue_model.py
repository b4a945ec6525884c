"""A shop's API, and the catalogue that must come of it, in plain Python: what test_sync_state_machine.py holds the product to."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

OPERATIONS = ("a", "b", "c", "d")
TITLES = ("Shop", "Store")
TEXTS = ("Text 1.", "Text 2.")
PARAMETER, CATEGORY = "parameters.q", "category"
FIELDS: dict[str, tuple[Any, ...]] = {
    "description": TEXTS,
    "name": ("a", "Mine"),
    "tags": (["shop"], ["mine"]),
    "sensitivity": ("internal", "restricted"),
    PARAMETER: TEXTS,
    CATEGORY: ("", "mine"),
}
"""What operators write: some of it is what the source says, or will say one day. It never says a category."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`place` is a part of its path, so that another place is a move. Without a text, its parameter is not there."""

    place: int
    text: str
    parameter: str

    def key(self, name: str) -> str:
        return f"/{name}/{self.place}@get"

    def imported(self, name: str) -> dict[str, Any]:
        return {
            "name": name, "description": self.text, "tags": ["shop"], "sensitivity": "internal", PARAMETER: self.parameter,
        }  # fmt: skip

    def written(self, name: str) -> dict[str, Any]:
        parameter = {"name": "q", "in": "query", "description": self.parameter, "schema": {"type": "string"}}
        return {
            "operationId": name,
            "description": self.text,
            "tags": ["shop"],
            "parameters": [parameter] if self.parameter else [],
            "responses": {"200": {"description": "ok"}},
        }


@dataclass(frozen=True, slots=True)
class Document:
    """The operations by their operationId."""

    title: str
    operations: Mapping[str, Operation]

    def written(self) -> bytes:
        paths = {f"/{name}/{one.place}": {"get": one.written(name)} for name, one in self.operations.items()}
        info = {"title": self.title, "version": "1"}
        return json.dumps({"openapi": "3.0.0", "info": info, "paths": paths}).encode()


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What is new in a document; an operation that is None is gone."""

    title: str
    operations: Mapping[str, Operation | None]


@dataclass(slots=True)
class Override:
    value: Any
    imported: Any
    author: str


@dataclass(slots=True)
class ModelTool:
    """A tool and its endpoint; `taken_down` by the vanishing of the endpoint, rather than by an operator."""

    operation: Operation
    title: str
    present: bool = True
    active: bool = True
    taken_down: bool = False
    overrides: dict[str, Override] = field(default_factory=dict)
    downloads: int = 0

    def shown(self, name: str) -> dict[str, Any]:
        imported = self.operation.imported(name)
        values = {**imported, CATEGORY: ""} | {field: one.value for field, one in self.overrides.items()}
        if not imported[PARAMETER]:
            values[PARAMETER] = ""  # an override of what is not there shows once it is there again
        return values


@dataclass(slots=True)
class CatalogueModel:
    """The catalogue of one source, by operationId."""

    tools: dict[str, ModelTool] = field(default_factory=dict)
    sync_wins: bool = False

    # --- Syncs ----------------------------------------------------------------------------------------------------

    def document(self, change: DocumentChange) -> Document:
        """What the API says with this change."""
        present = {name: tool.operation for name, tool in self.tools.items() if tool.present}
        operations = sorted({**present, **change.operations}.items())
        return Document(change.title, {name: one for name, one in operations if one is not None})

    def changes(self, document: Document) -> dict[str, str]:
        """What a sync to the document does, by operationId; those that it leaves alone are not there."""
        found = {name: "add" for name in document.operations if name not in self.tools}
        for name, tool in self.tools.items():
            new = document.operations.get(name)
            if new is None:
                if tool.present:
                    found[name] = "remove"
            elif new.place != tool.operation.place:
                found[name] = "move"
            elif (
                (new, document.title) != (tool.operation, tool.title) or not tool.present or self._wins(name)
            ):
                found[name] = "change"
        return found

    def told(self, name: str, document: Document) -> Any:
        """What a plan tells an operator of the change of this operation; None if there is none."""
        action, new = self.changes(document).get(name), document.operations.get(name)
        if action is None or new is None or name not in self.tools:
            return action
        tool = self.tools[name]
        old = tool.operation.imported(name)
        fields: list[Any] = []
        for one, value in new.imported(name).items():
            override = tool.overrides.get(one)
            protected = override is not None and not self.sync_wins
            before = old[one] if protected else tool.shown(name)[one]
            if one == PARAMETER and before != value:
                fields.append((before, value))
            if before != value and not (override and protected and value == override.value):
                fields.append((one, before, value, override is not None, protected))
        return (
            action,
            tool.operation.place,
            new.place,
            tool.title,
            not tool.present and tool.taken_down,
            fields,
        )

    def _wins(self, name: str) -> bool:
        """Whether the next sync takes something back that an operator wrote."""
        shown, imported = self.tools[name].shown(name), self.tools[name].operation.imported(name)
        return self.sync_wins and any(shown[field] != value for field, value in imported.items())

    def too_many_vanish(self, document: Document, chosen: Collection[str] | None = None) -> bool:
        """More than a fifth of what is there."""
        vanishing = [
            name
            for name, action in self.changes(document).items()
            if action == "remove" and (chosen is None or name in chosen)
        ]
        return 5 * len(vanishing) > sum(tool.present for tool in self.tools.values())

    def sync(self, document: Document, chosen: Collection[str] | None = None) -> None:
        for name, action in self.changes(document).items():
            if chosen is not None and name not in chosen:
                continue
            if action == "add":
                self.tools[name] = ModelTool(document.operations[name], document.title)
                continue
            tool = self.tools[name]
            if action == "remove":
                tool.present, tool.taken_down, tool.active = False, tool.active, False
                continue
            if not tool.present:
                tool.present, tool.active, tool.taken_down = True, tool.active or tool.taken_down, False
            tool.operation, tool.title = document.operations[name], document.title
            if self.sync_wins:
                tool.overrides = {field: one for field, one in tool.overrides.items() if field == CATEGORY}

    # --- Operators ------------------------------------------------------------------------------------------------

    def edit(self, name: str, field: str, value: Any, author: str) -> None:
        tool = self.tools[name]
        if value == tool.shown(name)[field]:
            return
        imported = tool.operation.imported(name).get(field, "")
        if value == imported:
            tool.overrides.pop(field, None)
        else:
            tool.overrides[field] = Override(value, imported, author)

    def reset(self, name: str, field: str) -> None:
        self.tools[name].overrides.pop(field, None)

    def keep(self, name: str, field: str) -> None:
        tool = self.tools[name]
        imported = tool.operation.imported(name).get(field, "")
        if field in tool.overrides and tool.overrides[field].value != imported:
            tool.overrides[field].imported = imported

    def set_active(self, name: str, *, active: bool) -> None:
        tool = self.tools[name]
        if tool.active != active:
            tool.active, tool.taken_down = (
                active,
                False,
            )  # what an operator decides, no return of an endpoint undoes

    # --- To be compared -------------------------------------------------------------------------------------------

    def view(self) -> dict[str, dict[str, Any]]:
        return {
            name: {
                "key": tool.operation.key(name),
                "title": tool.title,
                "present": tool.present,
                "active": tool.active,
                "downloads": tool.downloads,
                "shown": tool.shown(name),
                "overrides": {
                    field: (one.value, one.imported, one.author) for field, one in tool.overrides.items()
                },
            }
            for name, tool in self.tools.items()
        }
