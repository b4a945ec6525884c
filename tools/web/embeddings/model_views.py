"""The embedding models of the installation, and the switch between them (EMB-10).

They belong to the whole installation: a tenant's admin sees which one serves, a superuser the counts of all tenants and
the buttons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from embeddings import slots
from embeddings.models import EmbeddingModel
from embeddings.slots import Completeness, Slot, SlotError
from portal.jobs import heartbeats
from portal.resilience import circuit_breaker
from portal.resilience.models import Circuit
from portal.tenancy.models import Role
from tools.web.jobs.state import idle_queues
from tools.web.shell.access import TenantRequest, member_page
from tools.web.shell.confirm import confirm
from tools.web.shell.polling import poll_count, poll_seconds


@dataclass(frozen=True, slots=True)
class Second:
    """The slot that does not serve. `served_before`: one can switch back to it."""

    slot: Slot
    served_before: bool
    found: Completeness

    @property
    def missing(self) -> int:
        """How many vectors are neither ready nor failed."""
        return self.found.total - self.found.ready - self.found.failed

    @property
    def allowed(self) -> int:
        """How many vectors may be missing or failed at the switch."""
        return int(self.found.total * settings.EMBEDDING_SWITCH_MAX_MISSING)

    @property
    def allowed_percent(self) -> float:
        return 100 * settings.EMBEDDING_SWITCH_MAX_MISSING

    @property
    def too_many(self) -> int:
        """How many more must be ready before the switch."""
        return self.found.total - self.found.ready - self.allowed


@require_GET
@member_page(Role.ADMIN)
def models_page(request: TenantRequest) -> HttpResponse:
    """The page, or its `#models` for a poll. Polling ends once nothing is missing."""
    kept = slots.all()
    second = _second(kept) if len(kept) > 1 else None
    count = poll_count(request)
    context = {
        "serving": kept[0],
        "second": second,
        "serving_troubles": troubles_of(kept[0]),
        "second_troubles": troubles_of(kept[1]) if second else [],
        "idle_queues": idle_queues({heartbeats.EMBEDDINGS}) if second and second.missing else [],
        "may_switch": request.user.is_superuser,
        "is_changing": bool(second and second.missing) or bool(circuit_breaker.open_circuits()),
        "poll_seconds": poll_seconds(count),
        "next_count": count + 1,
    }
    return render(
        request, "embeddings/models.html#models" if request.htmx else "embeddings/models.html", context
    )


def troubles_of(slot: Slot) -> list[Circuit]:
    """The open circuits of the slot's provider; empty while it is healthy."""
    return [trouble for trouble in circuit_breaker.open_circuits() if trouble.name == slot.model]


def _second(kept: list[Slot]) -> Second | None:
    found = slots.completeness()
    if found is None:
        return None
    since = dict(EmbeddingModel.objects.values_list("slot", "created_at"))
    return Second(kept[1], since[kept[1].number] < since[kept[0].number], found)


def _superuser(request: TenantRequest) -> None:
    if not request.user.is_superuser:
        raise PermissionDenied(
            "This requires a superuser: the model is shared by all tenants of this installation."
        )


@require_http_methods(["GET", "POST"])
@member_page(Role.ADMIN)
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
    back = bool(second and second.served_before)
    return _ask(
        request,
        title=f"{'Switch back' if back else 'Switch'} to {kept[1].model}?",
        effect=f"All searches of all tenants will use the vectors of {kept[1].model}. "
        f"Those of {kept[0].model} are kept up to date, so that you can switch back at any time.",
        model=kept[1].model,
        button=f"Switch to {kept[1].model}",
    )


@require_http_methods(["GET", "POST"])
@member_page(Role.ADMIN)
def drop_model(request: TenantRequest) -> HttpResponse:
    """Drops the model that does not serve, after a question. The workers delete its vectors."""
    _superuser(request)
    if request.method == "POST":
        return _carry_out(request, slots.drop, "was dropped. The workers delete its vectors within minutes.")
    kept = slots.all()
    if len(kept) < 2:
        return redirect("models")
    return _ask(
        request,
        title=f"Drop {kept[1].model}?",
        effect=f"Its vectors are deleted in all tenants. {kept[0].model} keeps serving. Going back to "
        f"{kept[1].model} means embedding everything again.",
        model=kept[1].model,
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


def _ask(request: TenantRequest, *, model: str, **question: Any) -> HttpResponse:
    return confirm(request, hidden=[("model", model)], cancel=reverse("models"), **question)
