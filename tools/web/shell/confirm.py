"""Questions: what an action will do, and the form that carries it out. htmx shows it as a dialog, a browser as a page."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpResponse

from tools.web.shell.access import TenantRequest, render_part


def confirm(
    request: TenantRequest,
    *,
    title: str,
    button: str,
    cancel: str,
    effect: str = "",
    quote: str = "",
    problem: str = "",
    details: str = "",
    hidden: Iterable[tuple[str, object]] = (),
    keep: str = "Cancel",
    dangerous: bool = False,
    status: int = 200,
    **context: object,
) -> HttpResponse:
    """A question whose form posts to the address it was asked at.

    `effect` is a sentence, `quote` a text shown as such, `problem` what was wrong with an earlier answer. `details` names a
    template that is shown inside the form with `context`. `hidden` are the fields that come back with the answer. `cancel`
    is the address of the link that is labelled `keep`. No `button`: there is nothing to agree to.
    """
    question = {
        "title": title, "effect": effect, "quote": quote, "problem": problem, "details": details, "hidden": hidden,
        "button": button, "dangerous": dangerous, "cancel": cancel, "keep": keep, "action": request.get_full_path(),
    }  # fmt: skip
    return render_part(request, "shell/confirm.html#question", {**context, **question}, status)
