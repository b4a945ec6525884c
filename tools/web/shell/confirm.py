"""Questions: what an action will do, and the form that carries it out. htmx shows it as a dialog, a browser as a page."""

from __future__ import annotations

from django.http import HttpResponse

from tools.web.shell.access import TenantRequest, render_part


def confirm(
    request: TenantRequest, *, title: str, button: str, cancel: str, status: int = 200, **context: object
) -> HttpResponse:
    """A question whose form posts to the address it was asked at.

    Of the context, `effect` is a sentence, `quote` a text shown as such, `problem` what was wrong with an earlier answer.
    `details` names a template that is shown inside the form with the context. `hidden` are the fields that come back with the
    answer, as pairs. `cancel` is the address of the link that is labelled `keep`. No `button`: there is nothing to agree to;
    a `dangerous` one is red.
    """
    question = {
        **context,
        "title": title,
        "button": button,
        "cancel": cancel,
        "action": request.get_full_path(),
    }
    return render_part(request, "shell/confirm.html#question", question, status)
