"""A state machine of edits, syncs and deaths, held to the model of the catalogue after each step (catalogue_model.py)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from embeddings.text import source_hash
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.faults.catalogue_model import (
    FIELDS,
    OPERATIONS,
    PARAMETER,
    TEXTS,
    TITLES,
    CatalogueModel,
    Document,
    DocumentChange,
    Operation,
)
from tests.support.faults.history_check import HistoryCheck
from tests.support.faults.interrupted_syncs import at_moment, children, write, write_and_die
from tests.support.imports.syncs import WRITTEN
from tests.support.overrides import keep_override, reset_override
from tools.catalogue import embedding_text, sources
from tools.catalogue.errors import CatalogueError, RemovalsNeedConfirmation, StalePlan, StaleVersion
from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.catalogue.tools import update_tool
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.models import Source, Sync, SyncState, Tool

operations = st.builds(
    Operation,
    place=st.sampled_from([1, 1, 1, 2]),
    text=st.sampled_from(TEXTS),
    parameter=st.sampled_from([*TEXTS, ""]),
)
all_news = st.builds(
    DocumentChange,
    title=st.sampled_from([TITLES[0], *TITLES]),
    operations=st.dictionaries(
        st.sampled_from(OPERATIONS), st.none() | operations | operations, min_size=1, max_size=3
    ),
)
choices = st.none() | st.sets(st.sampled_from(OPERATIONS), min_size=1)
mostly = st.sampled_from([True, True, True, False])
which = st.integers(min_value=0, max_value=len(OPERATIONS) - 1)
fields = st.sampled_from(list(FIELDS))
edits = st.sampled_from([(field, value) for field, values in FIELDS.items() for value in values])
authors = st.sampled_from(["olga", "otto"])
moments = st.integers(min_value=0, max_value=60)


def step(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


# One rule that chooses among all: of many rules, Hypothesis leaves most out of most runs, and what is lost here is lost where
# several kinds of step meet.
steps = st.one_of(
    step("sync", change=all_news, confirm=mostly, twice=mostly),
    step("plan", change=all_news),
    step("apply", chosen=choices, confirm=mostly),
    step(
        "plan_and_apply",
        change=all_news,
        chosen=choices,
        confirm=mostly,
        between=st.none() | st.tuples(which, edits),
    ),
    step("die_in_a_sync", change=all_news, moment=moments, kill=st.booleans()),
    step("be_refused", change=all_news, cut=st.integers(min_value=1, max_value=200), which=which, edit=edits),
    step("edit", which=which, edit=edits, author=authors),
    step("edit", which=which, edit=edits, author=authors),
    step("keep_or_reset", which=which, field=fields, keep=st.booleans()),
    step("activate_or_deactivate", which=which, active=st.booleans()),
    step("let_the_sync_win", sync_wins=mostly.map(lambda mostly: not mostly)),
    step("use", which=which),
)


BESIDE_THE_TOOLS = """
SELECT t.id, e.source_hash, e.active, k.source_hash,
    (SELECT coalesce(jsonb_object_agg(field, jsonb_build_array(value, imported_value, made_by)), '{}')
     FROM tools_manualoverride o WHERE o.tool_id = t.id)
FROM tools_tool t LEFT JOIN tools_toolembedding e ON e.entity_id = t.id
LEFT JOIN embeddings_embeddingtask k ON k.entity_id = t.id WHERE t.tenant_id = %s
"""


@dataclass(slots=True)
class Planned:
    """A plan that waits, and the model of the catalogue that it was made of."""

    sync_id: UUID
    document: Document
    model: CatalogueModel
    changes: dict[str, UUID]


def machine(make_tenant: Callable[[], Tenant], owner: psycopg.Connection[Any]) -> type[RuleBasedStateMachine]:
    class Syncs(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.tenant = make_tenant()
            self.model = CatalogueModel()
            self.planned: Planned | None = None
            self.ids: dict[str, UUID] = {}
            self.versions: dict[str, tuple[int, Any]] = {}
            self.events = HistoryCheck(owner, self.tenant)

        def fingerprint(self, *without: str) -> list[Any]:
            """As `fingerprints` of tests/support/imports/syncs.py, in one statement: a machine takes thousands."""
            tables = [
                f"SELECT '{table}', xmin::text, ctid::text FROM {table} WHERE tenant_id = %(tenant)s"
                for table in WRITTEN
                if table not in without
            ]
            return sorted(owner.execute(" UNION ALL ".join(tables), {"tenant": self.tenant.pk}).fetchall())

        @contextmanager
        def nothing_written(self, *without: str) -> Iterator[None]:
            before = self.fingerprint(*without)
            yield
            assert self.fingerprint(*without) == before

        @rule(step=steps)
        def do(self, step: tuple[str, dict[str, Any]]) -> None:
            name, arguments = step
            getattr(self, name)(**arguments)

        # --- Syncs ------------------------------------------------------------------------------------------------

        @initialize(operations=st.dictionaries(st.sampled_from(OPERATIONS), operations, min_size=3))
        def begin(self, operations: dict[str, Operation]) -> None:
            self.sync(DocumentChange(TITLES[0], operations), confirm=False, twice=False)

        def sync(self, change: DocumentChange, *, confirm: bool, twice: bool) -> None:
            document = self.model.document(change)
            if self.model.too_many_vanish(document) and not confirm:
                with self.nothing_written(), pytest.raises(RemovalsNeedConfirmation):
                    write(self.tenant.pk, document.written(), None, confirm=False)
                return
            expected = list(self.model.changes(document).values())
            report = write(self.tenant.pk, document.written(), None, confirm=confirm)
            found = {
                "add": report.added,
                "change": report.changed,
                "move": report.moved,
                "remove": report.removed,
            }
            assert found == {action: expected.count(action) for action in found}
            self.model.sync(document)
            if twice:
                with self.nothing_written():
                    write(self.tenant.pk, document.written(), None)

        def plan(self, change: DocumentChange) -> None:
            document = self.model.document(change)
            with self.nothing_written("tools_source", "tools_sourcedocument"):
                sync = syncs.plan_document(IncomingDocument(raw=document.written(), name="shop.json", slug="shop"), tenant_id=self.tenant.pk, actor="otto")  # fmt: skip
            with tenant_context(self.tenant.pk):
                rows = list(sync.changes.all())
            names = {row.key.split("/")[1]: row for row in rows}
            assert {name: row.action for name, row in names.items()} == self.model.changes(document)
            assert sync.state == (SyncState.PLANNED if rows else SyncState.APPLIED)
            changes = {name: row.pk for name, row in names.items()}
            self.planned = Planned(sync.pk, document, deepcopy(self.model), changes) if rows else None

        def apply(self, chosen: set[str] | None, *, confirm: bool) -> None:
            planned, self.planned = self.planned, None
            if planned is None:
                return
            names = planned.changes.keys() if chosen is None else chosen & planned.changes.keys()
            is_as_told = all(
                self.model.told(name, planned.document) == planned.model.told(name, planned.document)
                for name in names
            )
            try:
                with self.undone_if_refused():
                    syncs.apply_sync(
                        tenant_id=self.tenant.pk, sync_id=planned.sync_id, actor="otto", confirm_removals=confirm,
                        chosen=None if chosen is None else [planned.changes[name] for name in names],
                    )  # fmt: skip
            except StalePlan:
                assert not is_as_told
            except RemovalsNeedConfirmation:
                assert is_as_told
                assert not confirm
                assert self.model.too_many_vanish(planned.document, names)
            else:
                assert is_as_told
                assert confirm or not self.model.too_many_vanish(planned.document, names)
                self.model.sync(planned.document, names)

        def plan_and_apply(
            self,
            change: DocumentChange,
            chosen: set[str] | None,
            between: tuple[int, tuple[str, Any]] | None,
            *,
            confirm: bool,
        ) -> None:
            self.plan(change)
            if between is not None:
                self.edit(*between, "olga")
                self.nothing_is_lost()
            self.apply(chosen, confirm=confirm)

        @contextmanager
        def undone_if_refused(self) -> Iterator[None]:
            before = self.fingerprint()
            try:
                yield
            except CatalogueError:
                assert self.fingerprint() == before
                raise

        # --- Deaths and refusals ----------------------------------------------------------------------------------

        def die_in_a_sync(self, change: DocumentChange, moment: int, *, kill: bool) -> None:
            """Of a document, or of the plan where one waits that is still what it was."""
            document, die = self.model.document(change), self.be_killed if kill else self.lose_the_connection
            plan, self.planned = self.planned, None
            if plan is not None and plan.model == self.model:
                die(moment, b"", plan.sync_id)
                with tenant_context(self.tenant.pk):
                    state = Sync.objects.get(pk=plan.sync_id).state
                assert state in {SyncState.PLANNED, SyncState.APPLIED}
                if state == SyncState.APPLIED:
                    self.model.sync(plan.document)
                else:
                    self.planned = plan
                return
            die(moment, document.written(), None)
            if self.seen() != self.model.view():
                self.model.sync(document)  # all of it, or else the invariant breaks

        def be_killed(self, moment: int, *arguments: Any) -> None:
            child = children.Process(target=write_and_die, args=(self.tenant.pk, *arguments, moment))
            child.start()
            child.join(30)
            assert child.exitcode == -signal.SIGKILL

        def lose_the_connection(self, moment: int, *arguments: Any) -> None:
            def cut() -> None:
                pid = connection.connection.info.backend_pid
                owner.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

            try:
                with at_moment(moment, cut):
                    write(self.tenant.pk, *arguments)
            except (OperationalError, InterfaceError):
                pass
            finally:
                connection.close()

        def be_refused(self, change: DocumentChange, cut: int, which: int, edit: tuple[str, Any]) -> None:
            """Half a document, and an edit of what somebody has saved since."""
            with self.nothing_written():
                with pytest.raises(DocumentRefused):
                    write(self.tenant.pk, self.model.document(change).written()[:-cut], None)
                with pytest.raises(StaleVersion):
                    self.update(self.one(which), "otto", dict([edit]), late=1)

        # --- Operators --------------------------------------------------------------------------------------------

        def one(self, which: int) -> str:
            return sorted(self.model.tools)[which % len(self.model.tools)]

        def update(self, name: str, author: str, changes: dict[str, Any], *, late: int = 0) -> None:
            if PARAMETER in changes:
                changes = {"parameter_descriptions": {"q": changes[PARAMETER]}}
            with tenant_context(self.tenant.pk):
                update_tool(
                    pk=self.ids[name], expected_version=self.versions[name][0] - late, changes=changes, actor=author
                )  # fmt: skip

        def edit(self, which: int, edit: tuple[str, Any], author: str) -> None:
            name, (field, value) = self.one(which), edit
            tool = self.model.tools[name]
            if field == PARAMETER and not tool.operation.parameter:
                return
            is_change = value != tool.shown(name)[field]
            self.update(name, author, {field: value})
            self.model.edit(name, field, value, author)
            if is_change:
                event = self.events.newest(self.ids[name])
                assert event["actor"] == author
                assert value == (
                    parameter_descriptions(event["parameters"])["q"] if field == PARAMETER else event[field]
                )

        def keep_or_reset(self, which: int, field: str, *, keep: bool) -> None:
            name = self.one(which)
            decide = keep_override if keep else reset_override
            with tenant_context(self.tenant.pk):
                decide(pk=self.ids[name], field=field, actor="otto")
            (self.model.keep if keep else self.model.reset)(name, field)

        def activate_or_deactivate(self, which: int, *, active: bool) -> None:
            name = self.one(which)
            self.update(name, "olga", {"active": active})
            self.model.set_active(name, active=active)

        def let_the_sync_win(self, *, sync_wins: bool) -> None:
            with tenant_context(self.tenant.pk):
                sources.update_source(pk=Source.objects.get().pk, actor="olga", sync_wins=sync_wins)
            self.model.sync_wins = sync_wins

        def use(self, which: int) -> None:
            name = self.one(which)
            owner.execute(
                "UPDATE tools_tool SET download_count = download_count + 1 WHERE id = %s", [self.ids[name]]
            )
            self.model.tools[name].downloads += 1

        # --- What holds -------------------------------------------------------------------------------------------

        def seen(self) -> dict[str, dict[str, Any]]:
            """The catalogue as CatalogueModel.view() has it. Embeddings must want each tool's text of now."""
            with tenant_context(self.tenant.pk):
                tools = list(Tool.objects.select_related("endpoint"))
            beside = {row[0]: row[1:] for row in owner.execute(BESIDE_THE_TOOLS, [self.tenant.pk])}
            found = {}
            for tool in tools:
                name = tool.tool_id
                assert self.ids.setdefault(name, tool.pk) == tool.pk
                *embedded, written = beside.pop(tool.pk)
                wanted = source_hash(embedding_text.source_text(tool))
                assert embedded == [wanted, tool.active, wanted if tool.active else None]
                shown = {field: getattr(tool, field) for field in FIELDS if field != PARAMETER}
                shown[PARAMETER] = parameter_descriptions(tool.parameters).get("q", "")
                endpoint = tool.endpoint
                assert endpoint is not None
                found[name] = {
                    "key": endpoint.key,
                    "title": tool.server,
                    "present": endpoint.active,
                    "active": tool.active,
                    "downloads": tool.download_count,
                    "shown": shown,
                    "overrides": {field: tuple(one) for field, one in written.items()},
                }
                version, looks = self.versions.get(name, (0, None))
                now = (shown, tool.server, tool.active)
                assert tool.version > version if now != looks else tool.version >= version
                self.versions[name] = (tool.version, now)
            assert not beside
            return found

        @invariant()
        def nothing_is_lost(self) -> None:
            if self.model.tools:
                assert self.seen() == self.model.view()
                self.events.check()

    return Syncs
