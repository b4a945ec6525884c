"""The embedding models of the installation, and the switch between them (EMB-10).

They belong to the whole installation: a tenant's admin sees which one serves, a superuser the counts of all tenants and
the buttons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from embeddings import slots
from embeddings.models import EmbeddingModel
from embeddings.slots import Slot, SlotError
from portal.jobs import heartbeats
from portal.resilience import circuit_breaker
from portal.resilience.models import Circuit
from portal.tenancy.models import Role
from tools.web.embeddings.state import is_off
from tools.web.jobs.state import idle_queues
from tools.web.shell.access import TenantRequest, member_page, render_part
from tools.web.shell.confirm import confirm


@member_page("GET", Role.ADMIN)
def models_page(request: TenantRequest) -> HttpResponse:
    """The page, or its `#models` for a poll. Polling ends once nothing is missing."""
    kept = slots.all()
    second = _second(kept) if len(kept) > 1 else None
    context = {
        "is_off": is_off(),
        "serving": kept[0],
        "second": second,
        "serving_troubles": troubles_of(kept[0]),
        "second_troubles": troubles_of(kept[1]) if second else [],
        "idle_queues": idle_queues({heartbeats.EMBEDDINGS}) if second and second["missing"] else [],
        "may_switch": request.user.is_superuser,
        "is_changing": bool(second and second["missing"]) or bool(circuit_breaker.open_circuits()),
    }
    return render_part(request, "embeddings/models.html#models", context)


def troubles_of(slot: Slot) -> list[Circuit]:
    """The open circuits of the slot's provider; empty while it is healthy."""
    asked = {slot.model} & slots.in_use()
    return [trouble for trouble in circuit_breaker.open_circuits() if trouble.name in asked]


def _second(kept: list[Slot]) -> dict[str, Any] | None:
    """The slot that does not serve. `served_before`: one can switch back to it. Of its vectors, `missing` are neither ready nor
    failed, `allowed` may be missing or failed at the switch, and `too_many` more must be ready before it."""
    found = slots.completeness()
    if found is None:
        return None
    since = dict(EmbeddingModel.objects.values_list("slot", "created_at"))
    allowed = int(found.total * settings.EMBEDDING_SWITCH_MAX_MISSING)
    return {
        "slot": kept[1],
        "served_before": since[kept[1].number] < since[kept[0].number],
        "found": found,
        "missing": found.total - found.ready - found.failed,
        "allowed": allowed,
        "allowed_percent": 100 * settings.EMBEDDING_SWITCH_MAX_MISSING,
        "too_many": found.total - found.ready - allowed,
    }


def _superuser(request: TenantRequest) -> None:
    if not request.user.is_superuser:
        raise PermissionDenied(
            "This requires a superuser: the model is shared by all tenants of this installation."
        )


@member_page("GET POST", Role.ADMIN)
def switch_model(request: TenantRequest) -> HttpResponse:
    """Switches to the named model, after a question. A second press changes nothing."""
    _superuser(request)
    if request.method == "POST":
        return _carry_out(
            request,
            slots.switch,
            "is serving now. The other model's vectors are kept, so that you can switch back.",
        )
    kept = slots.all()
    if len(kept) < 2:
        return redirect("models")
    second = _second(kept)
    back = bool(second and second["served_before"])
    return confirm(
        request,
        title=f"{'Switch back' if back else 'Switch'} to {kept[1].model}?",
        effect=f"All searches of all tenants will use the vectors of {kept[1].model}. "
        f"Those of {kept[0].model} are kept up to date, so that you can switch back at any time.",
        hidden=[("model", kept[1].model)],
        cancel=reverse("models"),
        button=f"Switch to {kept[1].model}",
    )


@member_page("GET POST", Role.ADMIN)
def drop_model(request: TenantRequest) -> HttpResponse:
    """Drops the model that does not serve, after a question. The workers delete its vectors."""
    _superuser(request)
    if request.method == "POST":
        return _carry_out(request, slots.drop, "was dropped. The workers delete its vectors within minutes.")
    kept = slots.all()
    if len(kept) < 2:
        return redirect("models")
    return confirm(
        request,
        title=f"Drop {kept[1].model}?",
        effect=f"Its vectors are deleted in all tenants. {kept[0].model} keeps serving. Going back to "
        f"{kept[1].model} means embedding everything again.",
        hidden=[("model", kept[1].model)],
        cancel=reverse("models"),
        button=f"Drop {kept[1].model}",
        dangerous=True,
    )


def _carry_out(request: TenantRequest, change: Callable[[str], Slot], said: str) -> HttpResponse:
    """Applies the change to the slot of the posted model; a message tells the outcome."""
    try:
        slot = change(request.POST.get("model", ""))
    except SlotError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{slot.model} {said}")
    return redirect("models")
