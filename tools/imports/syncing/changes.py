"""What a plan consists of: the document with its layer, the changes that it makes, and the report of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from uuid import UUID

from portal.json_types import JsonObject
from tools.catalogue.errors import StalePlan
from tools.imports.formats.specs import EndpointSpec, ParsedDocument
from tools.imports.syncing.documents import IncomingDocument
from tools.models import Action, Layer, SyncChange


@dataclass(slots=True)
class ImportReport:
    """What an import found and did, or would do.

    `operations` = tools + not_chosen + len(left_out), and `tools` = added + changed + moved + unchanged; `not_chosen` are new
    operations of a plan that was applied without them. `protected` counts tools that keep what an operator wrote, `conflicts`
    those where the imported text has moved on under it.
    """

    source: str
    operations: int = 0
    tools: int = 0
    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    not_chosen: int = 0
    protected: int = 0
    conflicts: int = 0
    left_out: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    dry_run: bool = False

    def as_dict(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LayeredDocument:
    """A parsed document, how it came, and which layer of its source it is."""

    document: ParsedDocument
    incoming: IncomingDocument
    layer: Layer


@dataclass(slots=True)
class PlannedChange:
    """A change of one endpoint and its tool. `spec` is what the endpoint will be; None if it is removed."""

    action: Action
    key: str
    spec: EndpointSpec | None
    content_hash: str = ""
    layers: JsonObject = field(default_factory=dict)
    endpoint_id: UUID | None = None
    old_key: str = ""
    tool_uuid: UUID | None = None
    name: str = ""
    fields: list[JsonObject] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def conflict(self) -> bool:
        return any(field["override"] == "conflict" for field in self.fields)

    def row(self) -> SyncChange:
        """The row of it, without its sync."""
        return SyncChange(
            key=self.key, old_key=self.old_key, action=self.action, name=self.name[:200], tool_uuid=self.tool_uuid,
            fields=self.fields, kept=self.kept, conflict=self.conflict,
        )  # fmt: skip

    def matches(self, shown: SyncChange) -> bool:
        """Whether this is the change that an operator was shown."""
        stored = (shown.action, shown.old_key, shown.tool_uuid, shown.fields)
        return stored == (self.action, self.old_key, self.tool_uuid, self.fields)


@dataclass(slots=True)
class Plan:
    """All changes, and the report of them; `active` endpoints were there before."""

    changes: list[PlannedChange]
    report: ImportReport
    active: int

    @property
    def is_empty(self) -> bool:
        return not self.changes

    def is_same_as(self, rows: Iterable[SyncChange]) -> bool:
        """Whether these stored changes, as many as the plan has, are the plan's; never of a plan that is empty."""
        by_key = {change.key: change for change in self.changes}
        return not self.is_empty and all(row.key in by_key and by_key[row.key].matches(row) for row in rows)

    def matching(self, rows: Mapping[str, SyncChange]) -> list[PlannedChange]:
        """The changes that stored ones (by key) show. Raises StalePlan where one of them differs by now."""
        by_key = {change.key: change for change in self.changes}
        stale = [key for key, row in rows.items() if key not in by_key or not by_key[key].matches(row)]
        if stale:
            raise StalePlan(sorted(stale))
        return [by_key[key] for key in rows]

    def report_of(self, changes: Sequence[PlannedChange]) -> ImportReport:
        """The report, if only these changes are applied."""
        counts = Counter(change.action for change in changes)
        added, changed, moved = counts[Action.ADD], counts[Action.CHANGE], counts[Action.MOVE]
        not_chosen = self.report.added - added
        tools = self.report.tools - not_chosen
        return replace(
            self.report, tools=tools, not_chosen=not_chosen, added=added, changed=changed, moved=moved,
            removed=counts[Action.REMOVE], unchanged=tools - added - changed - moved,
            conflicts=sum(change.conflict for change in changes),
        )  # fmt: skip
