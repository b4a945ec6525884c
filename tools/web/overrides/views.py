"""The list of overrides, and the actions on one, the selected or all that match: reset, keep, undo and patch (SYN-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from difflib import unified_diff
from uuid import uuid4

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.text import capfirst

from portal.tenancy.models import Role
from tools import fields
from tools.catalogue import overrides
from tools.catalogue.overrides import OverrideStatus
from tools.catalogue.visibility import seen
from tools.models import PARAMETER_PREFIX, ManualOverride, Source
from tools.web.embeddings.state import embedding_queued
from tools.web.overrides.state import forget_resets, label_of, override_row, remember_reset, undoable
from tools.web.shell.access import TenantRequest, actor, member_page
from tools.web.shell.addresses import next_url
from tools.web.shell.confirm import confirm
from tools.web.shell.diff import as_text
from tools.web.shell.errors import ErrorsAsMessages
from tools.web.shell.forms import chosen_ids
from tools.web.shell.lists import known_choices, list_query, list_url, page_of, render_list

_MOST_SHOWN = 50  # resulting texts in a question
_MOST_WHO = 500
_MOST_AT_ONCE = 5_000  # a page must answer in time
_PARAMETERS = "parameters"  # filter: the descriptions of all parameters
_FIELDS = {
    **{field: label_of(field).capitalize() for field in fields.OVERRIDABLE},
    _PARAMETERS: "Parameter descriptions",
}


# --- The page ---------------------------------------------------------------------------------------------------------


@member_page("GET")
def override_list(request: TenantRequest) -> HttpResponse:
    query = list_query(request)
    found, ignored = _matching(request, query)
    page = page_of(found, query)
    rows = ManualOverride.objects.select_related("tool__source").in_bulk([one.pk for one in page])
    authors = _visible().order_by("made_by").values_list("made_by", flat=True).distinct()
    context = {
        "ignored": ignored,
        "filtered": _filters_in_words(query),
        "rows": [override_row(rows[one.pk], one) for one in page if one.pk in rows],
        "conflict_count": sum(one.conflict for one in found),
        "matching": list_url("", query, all="1"),
        "here": list_url(request.path, query),
        "undoable": undoable(request),
        "options": {
            "source": list(seen(Source.objects.all()).values_list("slug", flat=True)),
            "field": list(_FIELDS.items()),
            "who": list(authors[:_MOST_WHO]),
        },
    }
    return render_list(request, "overrides/list.html", query, page, context)


def _filters_in_words(given: QueryDict) -> list[str]:
    """The filters in force, each as a label with its value."""
    known, _ = known_choices(given, {"field": _FIELDS})
    words = {
        "source": given.get("source"),
        "field": _FIELDS[known["field"]] if "field" in known else None,
        "overridden by": given.get("who"),
    }
    shown = [f"{label} “{value}”" for label, value in words.items() if value]
    return [*shown, "only conflicts"] if given.get("conflicts") else shown


def _visible() -> QuerySet[ManualOverride]:
    return seen(ManualOverride.objects.filter(tool__endpoint__isnull=False))


def _matching(request: TenantRequest, given: QueryDict) -> tuple[list[OverrideStatus], list[str]]:
    """The overrides that match the filters, conflicts first, and the filters that were ignored."""
    found = _visible()
    known, ignored = known_choices(given, {"field": _FIELDS})
    if source := given.get("source"):
        found = found.filter(tool__source__slug=source)
    if who := given.get("who"):
        found = found.filter(made_by=who)
    if field := known.get("field"):
        which = Q(field__startswith=PARAMETER_PREFIX) if field == _PARAMETERS else Q(field=field)
        found = found.filter(which)
    statuses = overrides.override_statuses(found)
    if given.get("conflicts"):
        statuses = [one for one in statuses if one.conflict]
    return statuses, ignored


# --- Actions on one, the selected, or all that match ------------------------------------------------------------------


def _chosen(request: TenantRequest) -> list[OverrideStatus]:
    """With `?all=1` all overrides that match the filters; else the one whose button was pressed, or the selected ones."""
    if request.GET.get("all"):
        return _matching(request, list_query(request))[0]
    given = (
        request.POST.getlist("only") or request.POST.getlist("selected") or request.GET.getlist("selected")
    )
    return overrides.override_statuses(_visible().filter(pk__in=chosen_ids(given)))


def _seen(chosen: Iterable[OverrideStatus]) -> str:
    """A digest of what a question showed: which overrides, when they were made, and the imported value of each."""
    parts = sorted(f"{one.pk} {one.made_at.isoformat()} {as_text(one.imported)}" for one in chosen)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@member_page("GET POST", Role.OPERATOR)
def reset_overrides(request: TenantRequest) -> HttpResponse:
    """Resets to the imported values, after a question that shows them; only if they are still those that it showed."""
    chosen = _chosen(request)
    back = next_url(request, reverse("override-list"))
    if not chosen:
        messages.warning(request, "Nothing was selected, or it has already been reset.")
        return redirect(back)
    if _are_too_many(request, chosen):
        return redirect(back)
    answered, what = request.POST.get("seen"), _what(chosen)
    if answered == _seen(chosen):
        with ErrorsAsMessages(request):
            reset = uuid4()
            done = overrides.reset_many(
                overrides=[one.pk for one in chosen], actor=actor(request), reset=reset
            )
            if len(chosen) > 1:
                what = f"{done:,} field{pluralize(done)}"
            remember_reset(request, reset, what, chosen)
            tools = {one.tool_id for one in chosen}
            messages.success(request, f"{capfirst(what)} reset to imported.{embedding_queued(tools)}")
        return redirect(back)
    return confirm(
        request,
        title=f"Reset {what} to imported?",
        problem="Nothing was reset: something has changed since you were asked. This is how it is now."
        if answered is not None
        else "",
        details="overrides/reset.html",
        chosen=[(one, label_of(one.field), as_text(one.imported)) for one in chosen[:_MOST_SHOWN]],
        more=max(0, len(chosen) - _MOST_SHOWN),
        count=len(chosen),
        tool_count=len({one.tool_id for one in chosen}),
        conflict_count=sum(one.conflict for one in chosen),
        hidden=[("seen", _seen(chosen)), ("next", back), *_hidden_ids(request, chosen)],
        button="Reset to imported" if len(chosen) == 1 else f"Reset {len(chosen):,} fields",
        cancel=back,
        status=409 if answered else 200,
    )


def _are_too_many(request: TenantRequest, chosen: list[OverrideStatus]) -> bool:
    """Whether a page would take too long for all of them; then a message says so."""
    if len(chosen) <= _MOST_AT_ONCE:
        return False
    messages.error(
        request,
        f"These are {len(chosen):,} overrides, and a page handles at most {_MOST_AT_ONCE:,} at once. Narrow the list by source or field.",
    )
    return True


def _hidden_ids(request: TenantRequest, chosen: list[OverrideStatus]) -> list[tuple[str, object]]:
    """The hidden fields that choose the same overrides again; with `?all=1` the address does."""
    return [] if request.GET.get("all") else [("selected", one.pk) for one in chosen]


def _what(chosen: list[OverrideStatus]) -> str:
    if len(chosen) == 1:
        return f"{label_of(chosen[0].field)} of {chosen[0].tool_name}"
    return f"{len(chosen):,} fields"


@member_page("GET POST", Role.OPERATOR)
def keep_overrides(request: TenantRequest) -> HttpResponse:
    """Ends the conflict of overrides by keeping them; for all that match after a question."""
    chosen = [one for one in _chosen(request) if one.conflict]
    back = next_url(request, reverse("override-list"))
    if _are_too_many(request, chosen):
        return redirect(back)
    if request.method != "POST":
        return confirm(
            request,
            title=f"Keep {len(chosen):,} override{pluralize(chosen)}?",
            effect="They stay as they are and are no longer in conflict, until their source changes again.",
            button=f"Keep {len(chosen):,} override{pluralize(chosen)}",
            cancel=back,
        )
    with ErrorsAsMessages(request):
        kept = overrides.keep_many(overrides=[one.pk for one in chosen], actor=actor(request))
        said = f"Kept {kept:,} override{pluralize(kept)} over the newer imported text."
        messages.success(request, said if kept else "Nothing to keep: no imported text has changed since.")
    return redirect(back)


# --- Undo -------------------------------------------------------------------------------------------------------------


@member_page("POST", Role.OPERATOR)
def undo_reset(request: TenantRequest) -> HttpResponse:
    given = chosen_ids([request.POST.get("reset", "")])
    with ErrorsAsMessages(request):
        done, changed = overrides.undo_reset(reset=given[0] if given else uuid4(), actor=actor(request))
        left = (
            f" {changed:,} tool{pluralize(changed)} had been changed since and {pluralize(changed, 'was,were')} not restored."
            if changed
            else ""
        )
        messages.success(request, f"Undone: {done:,} override{pluralize(done)} restored.{left}")
    forget_resets(request, given)
    return redirect(next_url(request, reverse("override-list")))


# --- Propose upstream -------------------------------------------------------------------------------------------------


@member_page("GET POST")
def override_patch(request: TenantRequest) -> HttpResponse:
    """The overrides as a unified diff against their sources, for the authors of the sources; `download` gives plain text.
    Also by POST, because a URL cannot hold many ids."""
    chosen = _chosen(request)
    back = next_url(request, reverse("override-list"))
    if _are_too_many(request, chosen):
        return redirect(back)
    rows = ManualOverride.objects.select_related("tool__source", "tool__endpoint").in_bulk(
        [one.pk for one in chosen]
    )
    patch = "".join(_patch(rows[one.pk], one) for one in chosen if one.pk in rows)
    if request.POST.get("download") or request.GET.get("download"):
        answer = HttpResponse(patch, content_type="text/plain; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="overrides.patch"'
        return answer
    context = {
        "patch": patch,
        "count": len(chosen),
        "hidden": _hidden_ids(request, chosen),
        "action": request.get_full_path(),
        "back": back,
    }
    return render(request, "overrides/patch.html", context)


def _patch(override: ManualOverride, status: OverrideStatus) -> str:
    """The diff of one override. Its file is named source/key#field, with the key of the operation in the source."""
    endpoint, source = override.tool.backing
    name = f"{source.slug}/{endpoint.key}#{override.field}".replace("\n", " ")
    lines = unified_diff(
        as_text(status.imported).splitlines(), as_text(override.value).splitlines(), f"a/{name}", f"b/{name}", lineterm=""
    )  # fmt: skip
    return "".join(f"{line}\n" for line in lines)
