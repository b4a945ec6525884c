"""Syncs of a source: the plan with a tick for each change, Apply, Discard and Plan again; and finished syncs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Page
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role
from tools.catalogue.errors import CatalogueError
from tools.catalogue.visibility import seen
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.apply import are_too_many
from tools.imports.syncing.documents import IncomingDocument, RequestDeadline
from tools.imports.syncing.jobs import APPLY
from tools.models import Action, Layer, Source, SourceDocument, SourceKind, Sync, SyncChange, SyncState
from tools.web.jobs.views import start_job
from tools.web.shell.access import TenantRequest, actor, find_row, member_page
from tools.web.shell.confirm import confirm
from tools.web.shell.errors import ErrorsAsMessages
from tools.web.shell.forms import chosen_ids
from tools.web.shell.lists import PAGE_SIZES, list_query, page_of, render_list
from tools.web.syncs.choice import Choice, Ticked
from tools.web.syncs.state import ACTIONS, STATES, change_rows

CONFLICTS, LEFT_OUT, WARNINGS = "conflicts", "left_out", "warnings"


@dataclass(frozen=True, slots=True)
class Tab:
    """One part of the plan, with how many rows it has."""

    name: str
    word: str
    count: int


def _find(pk: UUID, sync: UUID) -> Sync:
    return find_row(seen(Sync.objects.select_related("source")), "sync", pk=sync, source_id=pk)


@member_page("GET", Role.OPERATOR)
def sync_page(request: TenantRequest, pk: UUID, sync: UUID) -> HttpResponse:
    """The plan or the finished sync, or its `#results`. It shows private tools too, hence the role."""
    found = _find(pk, sync)
    query = list_query(request)
    choice = Choice(found, request.session)
    counts = choice.counts()
    tabs = _tabs(found, counts)
    tab = next((one for one in tabs if one.name == query.get("show", "")), tabs[0])
    is_list_of_changes = tab.name not in (LEFT_OUT, WARNINGS)
    page: Page[Any] = page_of(
        _changes(found, tab.name) if is_list_of_changes else found.summary[tab.name], query
    )
    jobs = Job.objects.seen().with_effective_state()
    job = jobs.filter(pk=found.job_id).first() if found.job_id else None
    context = {
        "sync": found,
        "source": found.source,
        "badge": STATES[SyncState(found.state)],
        "document": found.document_id
        and SourceDocument.objects.defer("content").filter(pk=found.document_id).first(),
        "tabs": tabs,
        "tab": tab,
        "rows": change_rows(list(page), choice.has) if is_list_of_changes else list(page),
        "is_open": found.state == SyncState.PLANNED and not (job and job.is_active),
        "job": job,
        "newer": _newer(found) if found.state == SyncState.PLANNED else None,
        "overwritten": _overwritten(found.changes.all()),
        **_removals(found, counts[Action.REMOVE].total),
        **_ticked(counts),
    }
    return render_list(request, "syncs/plan.html", query, page, context)


def _tabs(sync: Sync, counts: dict[str, Ticked]) -> list[Tab]:
    """The tab of all changes, then those that have rows."""
    summary = sync.summary
    parts = [
        *(Tab(action, ACTIONS[Action(action)].word, count.total) for action, count in counts.items()),
        Tab(CONFLICTS, "Conflicts", sync.changes.filter(conflict=True).count()),
        Tab(LEFT_OUT, "Left out", len(summary.get(LEFT_OUT, ()))),
        Tab(WARNINGS, "Warnings", len(summary.get(WARNINGS, ()))),
    ]
    every = Tab("", "All changes", sum(count.total for count in counts.values()))
    return [every, *(tab for tab in parts if tab.count)]


def _changes(sync: Sync, tab: str) -> QuerySet[SyncChange]:
    """The changes of a tab, conflicts first."""
    changes: QuerySet[SyncChange] = sync.changes.order_by("-conflict", "action", "key")
    if tab == CONFLICTS:
        return changes.filter(conflict=True)
    return changes.filter(action=tab) if tab else changes


def _overwritten(changes: QuerySet[SyncChange]) -> int:
    """The number of changes that remove an override, because sync wins."""
    return changes.filter(fields__contains=[{"override": "reset"}]).count()


def _ticked(counts: dict[str, Ticked]) -> dict[str, int]:
    return {
        "ticked": sum(count.ticked for count in counts.values()),
        "total": sum(count.total for count in counts.values()),
    }


def _newer(sync: Sync) -> Sync | None:
    """A sync of the same source that was applied after this plan was made."""
    return (
        Sync.objects.filter(source=sync.source_id, state=SyncState.APPLIED, ended_at__gt=sync.created_at)
        .defer("summary")
        .first()
    )


@member_page("POST", Role.OPERATOR)
def choose(request: TenantRequest, pk: UUID, sync: UUID) -> HttpResponse:
    """Stores the ticks of the current page or of a whole tab; htmx gets `#apply-bar` with the new count."""
    found = _find(pk, sync)
    choice = Choice(found, request.session)
    _keep_ticks(request.POST, choice, found)
    every = request.POST.get("every", "")
    if every in ("ticked", "unticked"):
        tab = request.POST.get("show", "")
        if tab == CONFLICTS:
            conflicts = list(_changes(found, tab).defer("fields"))
            choice.tick(conflicts, {one.pk for one in conflicts} if every == "ticked" else ())
        else:
            for action in [tab] if tab in Action.values else Action.values:
                choice.tick_action(action, ticked=every == "ticked")
    choice.save()
    if request.htmx:
        counted = _ticked(choice.counts())
        context = {
            "sync": found,
            "source": found.source,
            "spoken": f"{counted['ticked']:,} of {counted['total']:,} ticked.",
            **counted,
        }
        return render(request, "syncs/apply_bar.html", context)
    here = {name: request.POST[name] for name in ("show", "rows", "page") if request.POST.get(name)}
    return redirect(reverse("sync", args=[pk, sync], query=here))


def _keep_ticks(posted: QueryDict, choice: Choice, sync: Sync) -> None:
    """Keeps the ticks of the posted page, which has at most a hundred rows."""
    shown, ticked = (set(chosen_ids(posted.getlist(name)[: PAGE_SIZES[-1]])) for name in ("shown", "ticked"))
    if shown:
        choice.tick(sync.changes.filter(pk__in=shown).defer("fields"), ticked)


@member_page("POST", Role.OPERATOR)
def apply_sync(request: TenantRequest, pk: UUID, sync: UUID) -> HttpResponse:
    """Asks with the counts of what will change, then starts the job that applies it."""
    found, here = _find(pk, sync), reverse("sync", args=[pk, sync])
    if found.state != SyncState.PLANNED:
        messages.error(
            request,
            f"This sync has already ended ({found.get_state_display().lower()}); nothing was applied.",
        )
        return HttpResponseClientRedirect(here) if request.htmx else redirect(here)
    choice = Choice(found, request.session)
    _keep_ticks(request.POST, choice, found)
    choice.save()
    counts = choice.counts()
    ticked, removals = _ticked(counts), _removals(found, counts[Action.REMOVE].ticked)
    problem = _problem(
        request.POST, choice, ticked=ticked["ticked"], needs_consent=bool(removals["needs_consent"])
    )
    if problem is None:
        is_everything = ticked["ticked"] == ticked["total"]
        arguments = {
            "sync": str(found.pk),
            "changes": None
            if is_everything
            else [str(pk) for pk in choice.ticked().values_list("pk", flat=True)],
            "confirm_removals": "confirm_removals" in request.POST,
        }
        return start_job(
            request,
            APPLY,
            arguments,
            running="This plan was being applied already: this is the job.",
            back=here,
            started=choice.forget,
        )
    return confirm(
        request,
        title=f"Apply {ticked['ticked']:,} of {ticked['total']:,} change{pluralize(ticked['total'])} to {found.source.slug}?",
        problem=problem,
        details="syncs/apply.html",
        counts=[(ACTIONS[Action(action)], count) for action, count in counts.items() if count.ticked],
        conflicts=choice.ticked().filter(conflict=True).count(),
        overwritten=_overwritten(choice.ticked()),
        ticked=ticked["ticked"],
        total=ticked["total"],
        removed=removals["removed"],
        active=removals["active"],
        needs_consent=removals["needs_consent"],
        hidden=[("choice", choice.mark())],
        button=f"Apply {ticked['ticked']:,} change{pluralize(ticked['ticked'])}" if ticked["ticked"] else "",
        dangerous=bool(removals["needs_consent"]),
        keep="Back to the plan",
        cancel=here,
        status=422 if problem else 200,
    )


def _removals(sync: Sync, removed: int) -> dict[str, int]:
    """How many of the source's active tools would be removed, and whether that needs a confirmation."""
    active = sync.source.endpoints.filter(active=True).count()
    return {"removed": removed, "active": active, "needs_consent": are_too_many(removed, active)}


def _problem(posted: QueryDict, choice: Choice, *, ticked: int, needs_consent: bool) -> str | None:
    """What is wrong with the answer to the question: empty if it was not asked yet, None if the plan may be applied."""
    if not ticked:
        return "Nothing is ticked, so there is nothing to apply."
    if not posted.get("choice"):
        return ""
    if posted["choice"] != choice.mark():
        return "The ticks have changed since you were asked, perhaps in another tab. Check the counts again."
    if needs_consent and "confirm_removals" not in posted:
        return "Tick the box to agree to the removals, or untick some of them in the plan."
    return None


@member_page("GET POST", Role.OPERATOR)
def discard(request: TenantRequest, pk: UUID, sync: UUID) -> HttpResponse:
    found = _find(pk, sync)
    if request.method != "POST":
        return confirm(
            request,
            title="Discard this plan?",
            effect="None of its changes will be made. "
            + (
                "The source was created by this plan and is deleted too."
                if syncs.is_all_of_source(found)
                else "The source is unchanged, and the plan stays in its history."
            ),
            button="Discard the plan",
            keep="Keep the plan",
            cancel=reverse("sync", args=[pk, sync]),
        )
    with ErrorsAsMessages(request):
        syncs.discard_sync(sync_id=found.pk, actor=actor(request))
        Choice(found, request.session).forget()
        messages.success(request, "The plan was discarded; nothing was changed.")
        is_left = Source.objects.filter(pk=pk).exists()
        return redirect("source", pk=pk) if is_left else redirect("source-list")
    return redirect("sync", pk=pk, sync=sync)


@member_page("POST", Role.OPERATOR, calls_external=True)
def plan_again(request: TenantRequest, pk: UUID, sync: UUID) -> HttpResponse:
    """Plans the stored document of a sync again: one that was uploaded, or an older one to go back to."""
    with tenant_context(request.member.tenant_id):
        found = _find(pk, sync)
        document = found.document
    if document is None:
        raise Http404("This sync has no document.")
    if found.source.kind == SourceKind.MANUAL:
        # A file of tools adds and changes tools but is no complete list of them, so it cannot be planned.
        messages.error(
            request, "A file of tools cannot be planned. Import it again with manage.py import_tools."
        )
        return redirect("sync", pk=pk, sync=sync)
    try:
        incoming = IncomingDocument(
            bytes(document.content),
            document.name,
            found.source.slug,
            found.source.kind if document.layer == Layer.EXTRACTION else SourceKind.LIGHTAPI,
        )
        planned = syncs.plan_document(
            incoming,
            tenant_id=request.member.tenant_id,
            actor=actor(request),
            seconds=RequestDeadline().left(),
        )
    except (DocumentRefused, CatalogueError) as error:
        messages.error(request, str(error))
        return redirect("sync", pk=pk, sync=sync)
    return redirect("sync", pk=pk, sync=planned.pk)
