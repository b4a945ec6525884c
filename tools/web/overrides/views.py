"""Overrides: how one is shown, the page of all of them, and Reset, Keep, Undo and Copy as patch (SYN-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from difflib import unified_diff
from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import push_url

from portal.tenancy.models import Role
from tools.catalogue import overrides
from tools.catalogue.errors import CatalogueError
from tools.catalogue.overrides import OverrideStatus
from tools.models import OVERRIDABLE_FIELDS, PARAMETER_PREFIX, ManualOverride, Source, Tool
from tools.web.shell.access import PageRequest, actor, member_page, next_url
from tools.web.shell.diff import Segment, as_text, word_diff
from tools.web.shell.forms import chosen_ids
from tools.web.tools.list import PAGE_SIZES, without_blanks
from tools.web.tools.state import visible_tools

_MOST_SHOWN = 50  # resulting texts in a question
_MOST_WHO = 500
_MOST_AT_ONCE = 5_000  # what a page may take the time for
_MOST_UNDO = 5
_PARAMETERS = "parameters"  # as a filter: the descriptions of all parameters
_LABELS = {"parameters": "input schema", "output": "output schema", "routing_domain": "domain"}


@dataclass(frozen=True, slots=True)
class ShownOverride:
    """An override beside what its source says now. `diff` leads from the imported text to the operator's, `moved` from the
    imported text that was overridden to that of now; it is empty where they are the same."""

    override: ManualOverride
    label: str
    imported: str
    value: str
    diff: list[Segment]
    moved: list[Segment]
    conflict: bool
    gone: bool


def shown(override: ManualOverride, status: OverrideStatus) -> ShownOverride:
    imported, value = as_text(status.imported), as_text(override.value)
    return ShownOverride(
        override=override,
        label=label_of(override.field),
        imported=imported,
        value=value,
        diff=word_diff(imported, value),
        moved=word_diff(as_text(override.imported_value), imported) if status.conflict else [],
        conflict=status.conflict,
        gone=status.gone,
    )


def overrides_of(tool: Tool) -> list[ShownOverride]:
    """Those of one tool, conflicts first."""
    mine = ManualOverride.objects.filter(tool=tool)
    rows = mine.in_bulk()
    return [shown(rows[one.pk], one) for one in overrides.override_statuses(mine) if one.pk in rows]


def label_of(field: str) -> str:
    """A field of a tool in words, within a sentence."""
    if field.startswith(PARAMETER_PREFIX):
        return f"description of {field.removeprefix(PARAMETER_PREFIX)}"
    return _LABELS.get(field, field.replace("_", " "))


# --- The page ---------------------------------------------------------------------------------------------------------


@require_GET
@member_page()
def override_list(request: PageRequest) -> HttpResponse:
    """The page, or `#results` for a filter or a page of it."""
    given = without_blanks(request.GET)
    found, ignored = _matching(request, given)
    size = given.get("rows", "")
    paginator = Paginator(found, int(size) if size in map(str, PAGE_SIZES) else PAGE_SIZES[0])
    page = paginator.get_page(given.get("page"))
    rows = ManualOverride.objects.select_related("tool__source").in_bulk([one.pk for one in page])
    everybody = _visible(request).order_by("made_by").values_list("made_by", flat=True).distinct()
    query = given.copy()
    query.pop("page", None)
    query["all"] = "1"
    context = {
        "given": given,
        "ignored": ignored,
        "is_filtered": any(given.get(name) for name in ("source", "field", "who", "conflicts")),
        "page": page,
        "page_size": paginator.per_page,
        "page_sizes": PAGE_SIZES,
        "rows": [shown(rows[one.pk], one) for one in page if one.pk in rows],
        "conflict_count": sum(one.conflict for one in found),
        "matching": query.urlencode(),
        "here": _list_url(given),
        "undoable": undoable(request),
        "options": {
            "source": list(Source.objects.values_list("slug", flat=True)),
            "field": [
                *((field, label_of(field).capitalize()) for field in OVERRIDABLE_FIELDS),
                (_PARAMETERS, "Descriptions of parameters"),
            ],
            "who": list(everybody[:_MOST_WHO]),
        },
    }
    if not request.htmx:
        return render(request, "overrides/list.html", context)
    return push_url(render(request, "overrides/list.html#results", context), _list_url(given))


def _list_url(given: QueryDict) -> str:
    return f"{reverse('override-list')}?{given.urlencode()}" if given else reverse("override-list")


def _visible(request: PageRequest) -> QuerySet[ManualOverride]:
    found: QuerySet[ManualOverride] = ManualOverride.objects.filter(
        tool__in=visible_tools(request), tool__endpoint__isnull=False
    )
    return found


def _matching(request: PageRequest, given: QueryDict) -> tuple[list[OverrideStatus], list[str]]:
    """What the filters leave, conflicts first, and the filters of an old link that mean nothing."""
    found = _visible(request)
    ignored = []
    if source := given.get("source"):
        found = found.filter(tool__source__slug=source)
    if who := given.get("who"):
        found = found.filter(made_by=who)
    field = given.get("field", "")
    if field == _PARAMETERS:
        found = found.filter(field__startswith=PARAMETER_PREFIX)
    elif field in OVERRIDABLE_FIELDS:
        found = found.filter(field=field)
    elif field:
        ignored.append(f"field “{field}”")
    override_statuses = overrides.override_statuses(found)
    return [one for one in override_statuses if one.conflict] if given.get(
        "conflicts"
    ) else override_statuses, ignored


# --- Actions on one, the selected, or all that match ------------------------------------------------------------------


def _chosen(request: PageRequest) -> list[OverrideStatus]:
    """`?all=1` means all that the filters beside it leave; else the one whose button was pressed, or the ticked ones."""
    if request.GET.get("all"):
        return _matching(request, without_blanks(request.GET))[0]
    given = (
        request.POST.getlist("only") or request.POST.getlist("selected") or request.GET.getlist("selected")
    )
    return overrides.override_statuses(_visible(request).filter(pk__in=chosen_ids(given)))


def _seen(chosen: Iterable[OverrideStatus]) -> str:
    """What a question was about: which overrides, as they were made, and what each would become."""
    parts = sorted(f"{one.pk} {one.made_at.isoformat()} {as_text(one.imported)}" for one in chosen)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def reset_overrides(request: PageRequest) -> HttpResponse:
    """Back to the imported values, after a question that shows them; done only if they are still those that it showed."""
    chosen = _chosen(request)
    back = next_url(request, reverse("override-list"))
    if not chosen:
        messages.warning(request, "Nothing was chosen, or it has been reset already.")
        return redirect(back)
    if len(chosen) > _MOST_AT_ONCE:
        messages.error(request, _too_many(len(chosen)))
        return redirect(back)
    answered = request.POST.get("seen")
    if answered == _seen(chosen):
        reset = uuid4()
        try:
            done = overrides.reset_many(
                overrides=[one.pk for one in chosen], actor=actor(request), reset=reset
            )
        except CatalogueError as error:
            messages.error(request, str(error))
        else:
            what = _what(chosen)
            _remember(request, reset, what, chosen)
            messages.success(
                request,
                f"The imported {what} is back. Embedding queued."
                if len(chosen) == 1
                else f"{done:,} fields have their imported value again. Embedding queued.",
            )
        return redirect(back)
    context = {
        "title": f"Reset {_what(chosen)} to the imported {'value' if len(chosen) == 1 else 'values'}?",
        "chosen": [(one, label_of(one.field), as_text(one.imported)) for one in chosen[:_MOST_SHOWN]],
        "more": max(0, len(chosen) - _MOST_SHOWN),
        "count": len(chosen),
        "tool_count": len({one.tool_id for one in chosen}),
        "conflict_count": sum(one.conflict for one in chosen),
        "is_outdated": answered is not None,
        "seen": _seen(chosen),
        "ids": [] if request.GET.get("all") else [one.pk for one in chosen],
        "action": request.get_full_path(),
        "back": back,
    }
    template = "overrides/reset.html#question" if request.htmx else "overrides/reset.html"
    return render(request, template, context, status=409 if answered else 200)


def _too_many(count: int) -> str:
    return f"These are {count:,} overrides, and a page takes at most {_MOST_AT_ONCE:,} at once. Narrow the list by source or field."


def _what(chosen: list[OverrideStatus]) -> str:
    if len(chosen) == 1:
        return f"{label_of(chosen[0].field)} of {chosen[0].tool_name}"
    return f"{len(chosen):,} fields"


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def keep_overrides(request: PageRequest) -> HttpResponse:
    """The operator has seen the newer imported values and stays with their own; for all that match after a question."""
    chosen = [one for one in _chosen(request) if one.conflict]
    back = next_url(request, reverse("override-list"))
    if len(chosen) > _MOST_AT_ONCE:
        messages.error(request, _too_many(len(chosen)))
        return redirect(back)
    if request.method == "POST":
        try:
            kept = overrides.keep_many(overrides=[one.pk for one in chosen], actor=actor(request))
        except CatalogueError as error:
            messages.error(request, str(error))
        else:
            messages.success(
                request,
                f"Kept {kept:,} edit{'s' if kept != 1 else ''} over the newer imported text."
                if kept
                else "Nothing to decide: the imported text has not changed since.",
            )
        return redirect(back)
    question = {
        "title": f"Keep {len(chosen):,} edits over newer imported texts?",
        "effect": "They stay as they are and count as decided, until their source says something else again.",
        "action": request.get_full_path(),
        "button": f"Keep {len(chosen):,} edits",
        "cancel": back,
    }
    return render(request, "shell/confirm.html#question" if request.htmx else "shell/confirm.html", question)


# --- Undo -------------------------------------------------------------------------------------------------------------


def _remember(request: PageRequest, reset: UUID, what: str, chosen: list[OverrideStatus]) -> None:
    tools = {str(one.tool_id) for one in chosen}
    entry = {
        "reset": str(reset), "what": what, "at": timezone.now().timestamp(),
        "tool": tools.pop() if len(tools) == 1 else "",
    }  # fmt: skip
    request.session["resets"] = [entry, *undoable(request)][:_MOST_UNDO]


def undoable(request: PageRequest, tool: UUID | None = None) -> list[dict[str, Any]]:
    """The visitor's resets of the last ten minutes, newest first; those of one tool alone where `tool` is given."""
    start = (timezone.now() - overrides.UNDO + timedelta(seconds=5)).timestamp()
    return [
        one
        for one in request.session.get("resets", [])
        if one["at"] > start and (tool is None or one["tool"] == str(tool))
    ]


@require_POST
@member_page(Role.OPERATOR)
def undo_reset(request: PageRequest) -> HttpResponse:
    """Takes a reset back."""
    given = chosen_ids([request.POST.get("reset", "")])
    try:
        done, changed = overrides.undo_reset(reset=given[0] if given else uuid4(), actor=actor(request))
    except CatalogueError as error:
        messages.error(request, str(error))
    else:
        left = f" {changed:,} tools have been changed since and were left alone." if changed else ""
        messages.success(
            request, f"Undone: {done:,} edit{'s are' if done != 1 else ' is'} back.{left} Embedding queued."
        )
    request.session["resets"] = [one for one in undoable(request) if one["reset"] not in map(str, given)]
    return redirect(next_url(request, reverse("override-list")))


# --- Propose upstream -------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "POST"])
@member_page()
def override_patch(request: PageRequest) -> HttpResponse:
    """The edits as a unified diff against what the sources say, to be proposed to those who write them; `download` gives the
    plain text. Also by POST, since an address cannot hold many ids."""
    chosen = _chosen(request)
    back = next_url(request, reverse("override-list"))
    if len(chosen) > _MOST_AT_ONCE:
        messages.error(request, _too_many(len(chosen)))
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
        "ids": [] if request.GET.get("all") else [one.pk for one in chosen],
        "action": request.get_full_path(),
        "back": back,
    }
    return render(request, "overrides/patch.html", context)


def _patch(override: ManualOverride, status: OverrideStatus) -> str:
    """One field's edit; its file is called source/key#field, after the key of the operation in the source."""
    endpoint, source = override.tool.backing
    name = f"{source.slug}/{endpoint.key}#{override.field}".replace("\n", " ")
    lines = unified_diff(
        as_text(status.imported).splitlines(), as_text(override.value).splitlines(), f"a/{name}", f"b/{name}", lineterm=""
    )  # fmt: skip
    return "".join(f"{line}\n" for line in lines)
