"""What a sync changes of one tool, field by field, for who reads a plan. Pure but for the rows it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.imports import schema_diff
from tools.imports.parameter_texts import parameter_descriptions
from tools.models import PARAMETER_PREFIX, Tool

_SCHEMAS = ("parameters", "output", "annotations")
_UNSEEN = ("description_source", "source_protocol")  # bookkeeping: of no interest to who reads a plan


class Differences:
    """Of one tool, between what its source said and what it says now."""

    def __init__(
        self,
        tool: Tool,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        overrides: Mapping[str, Any],
        sync_wins: bool,  # noqa: FBT001 - of the source, as all here
    ) -> None:
        self.tool, self.before, self.after = tool, before, after
        self.overrides, self.sync_wins = overrides, sync_wins

    def fields(self) -> Iterator[dict[str, Any]]:
        """Each as `field_change` has it. What changes of a schema is told in lines. `override` is "conflict" where an operator's
        value stays over a new imported one, and "reset" where the source's syncs win."""
        for name, new in self.after.items():
            if name in _UNSEEN:
                continue
            is_overridden = name in self.overrides and not self.sync_wins
            old = self._old(name)
            if old == new or (is_overridden and new == self.overrides[name]):
                continue
            if name in _SCHEMAS:
                yield field_change(
                    name, [], schema_diff.changes(old, new), "conflict" if is_overridden else ""
                )
            elif name in self.overrides:
                yield field_change(name, old, new, "conflict" if is_overridden else "reset")
            else:
                yield field_change(name, old, new)
        yield from self._parameter_texts()

    def _old(self, name: str) -> Any:
        """What the tool has; under an override, what the source said."""
        has_texts = name == "parameters" and any(one.startswith(PARAMETER_PREFIX) for one in self.overrides)
        if (name in self.overrides or has_texts) and not self.sync_wins:
            return self.before.get(name)
        return getattr(self.tool, name)

    def _parameter_texts(self) -> Iterator[dict[str, Any]]:
        names = [one for one in self.overrides if one.startswith(PARAMETER_PREFIX)]
        if not names or self.sync_wins:
            return
        before = parameter_descriptions(self.before["parameters"])
        after = parameter_descriptions(self.after["parameters"])
        for name in names:
            old, new = (texts.get(name.removeprefix(PARAMETER_PREFIX), "") for texts in (before, after))
            if old != new and new != self.overrides[name]:
                yield field_change(name, old, new, "conflict")


def field_change(name: str, before: Any, after: Any, override: str = "") -> dict[str, Any]:
    """One entry of SyncChange.fields."""
    return {"field": name, "before": before, "after": after, "override": override}
