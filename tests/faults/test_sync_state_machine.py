"""R16, SYN-4 to SYN-6, CAT-8: any order of edits, syncs and deaths loses no override, no tool's id, and nothing of its history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from portal.tenancy.models import Tenant
from tests.support.counts import scaled, share_of_full_count
from tests.support.database import real_commits
from tests.support.faults import sync_state_machine
from tests.support.faults.sync_state_machine import machine
from tests.support.imports.syncs import parse_here
from tools.imports.fetching import sandbox
from tools.imports.syncing import apply, plan
from tools.imports.syncing import service as syncs
from tools.imports.syncing.identity import Matches

STEPS, AT_A_TIME = 8, 9


@pytest.fixture
def catalogue(
    django_db_blocker: Any,
    admin_database: psycopg.Connection[Any],
    make_tenant: Callable[[], Tenant],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[type[RuleBasedStateMachine]]:
    monkeypatch.setattr(sandbox, "parse", parse_here)
    with real_commits(django_db_blocker, admin_database):
        yield machine(make_tenant, admin_database)


def run(catalogue: type[RuleBasedStateMachine], examples: int, *phases: Phase) -> None:
    """Few at a time: from its tenth example on, Hypothesis makes most of them from earlier ones."""
    for number in range(-(-examples // AT_A_TIME)):
        run_state_machine_as_test(
            seed(number)(catalogue),
            settings=settings(
                # The first one is always the least one.
                max_examples=AT_A_TIME + 1, stateful_step_count=STEPS, deadline=None, database=None,
                suppress_health_check=list(HealthCheck),
                # Explaining a failure would trace every line of every run.
                phases=phases or (Phase.generate, Phase.shrink),
            ),
        )  # fmt: skip


@share_of_full_count()
def test_no_order_of_edits_syncs_and_deaths_loses_anything_R16_SYN_4_SYN_5_SYN_6_CAT_8(
    catalogue: type[RuleBasedStateMachine], share: float
) -> None:
    run(catalogue, scaled(200 * share))


# --- Bugs that the machine must notice --------------------------------------------------------------------------------
def _writes_in_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(tenant_id: UUID, raw: bytes, sync_id: UUID | None, **options: Any) -> Any:
        if sync_id is None:
            whole(tenant_id, raw.replace(b'"title": "S', b'"title": "Half of a S'), None)
        return whole(tenant_id, raw, sync_id, **options)

    whole = sync_state_machine.write
    monkeypatch.setattr(sync_state_machine, "write", twice)


def _activates_all(monkeypatch: pytest.MonkeyPatch) -> None:
    project = apply._Writer._project

    def activates(self: Any, tools: Any, dropped: Any, _: Any) -> None:
        project(self, tools, dropped, set(dropped))

    monkeypatch.setattr(apply._Writer, "_project", activates)


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a sync that does not know of overrides": lambda monkeypatch: monkeypatch.setattr(
        apply._Writer, "_overrides", lambda self, tools: {}
    ),
    "a move that makes a new tool": lambda monkeypatch: monkeypatch.setattr(
        plan,
        "match_endpoints",
        lambda wanted, existing, **_: Matches({one.key: one for one in existing if one.key in wanted}, []),
    ),
    "a return that activates what an operator deactivated": _activates_all,
    "a sync without a guard": lambda monkeypatch: monkeypatch.setattr(
        syncs, "check_removals", lambda *_: None
    ),
    "a sync that is two transactions": _writes_in_two_parts,
    "a tool that is not embedded anew": lambda monkeypatch: monkeypatch.setattr(
        apply, "sync_embeddings", lambda tools, **options: 0
    ),
}


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(name, marks=[] if name == "a sync that is two transactions" else pytest.mark.slow)
        for name in MUTANTS
    ],
)
def test_the_machine_notices_R16(
    catalogue: type[RuleBasedStateMachine], monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    MUTANTS[mutant](monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(catalogue, 90, Phase.generate)  # the first failure will do, no need for the shortest
