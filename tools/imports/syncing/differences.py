"""The changes that a sync makes to one tool, field by field, as a plan shows them. Reads no rows but those that it is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.imports.formats.specs import JsonObject, JsonValue
from tools.imports.syncing import schema_diff
from tools.models import PARAMETER_PREFIX, Tool

SCHEMAS = ("parameters", "output", "annotations")  # a change of these is shown as lines of differences
_NOT_SHOWN = ("description_source", "source_protocol")  # not shown in a plan


class Differences:
    """The differences of one tool between what its source provided and what it provides now."""

    def __init__(
        self,
        tool: Tool,
        before: JsonObject,
        after: JsonObject,
        overrides: JsonObject,
        sync_wins: bool,  # noqa: FBT001 - of the source, as all here
    ) -> None:
        self.tool, self.before, self.after = tool, before, after
        self.overrides, self.sync_wins = overrides, sync_wins
        self._end = "reset" if sync_wins else "conflict"

    def fields(self) -> Iterator[JsonObject]:
        """Yields one `field_change` a field that differs. `override` is "conflict" where an operator's value stays over a new
        imported one, and "reset" where the source's syncs win."""
        for name, new in self.after.items():
            if name in _NOT_SHOWN:
                continue
            is_overridden = name in self.overrides and not self.sync_wins
            old = self._old(name)
            if old == new or (is_overridden and new == self.overrides[name]):
                continue
            before, after = ([], schema_diff.changes(old, new)) if name in SCHEMAS else (old, new)
            yield field_change(name, before, after, self._end if name in self.overrides else "")
        yield from self._parameter_texts()

    def _old(self, name: str) -> Any:
        """The tool's value; of an overridden field, the source's."""
        has_texts = name == "parameters" and any(one.startswith(PARAMETER_PREFIX) for one in self.overrides)
        if (name in self.overrides or has_texts) and not self.sync_wins:
            return self.before.get(name)
        return getattr(self.tool, name)

    def _parameter_texts(self) -> Iterator[JsonObject]:
        names = [one for one in self.overrides if one.startswith(PARAMETER_PREFIX)]
        if not names:
            return
        before = parameter_descriptions(self.tool.parameters if self.sync_wins else self.before["parameters"])
        after = parameter_descriptions(self.after["parameters"])
        for name in names:
            old, new = (texts.get(name.removeprefix(PARAMETER_PREFIX), "") for texts in (before, after))
            if old != new and (self.sync_wins or new != self.overrides[name]):
                yield field_change(name, old, new, self._end)


def field_change(name: str, before: JsonValue, after: JsonValue, override: str = "") -> JsonObject:
    """One entry of SyncChange.fields."""
    return {"field": name, "before": before, "after": after, "override": override}
