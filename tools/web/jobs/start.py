"""A job started by a button of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect

from portal.jobs import services
from portal.jobs.errors import AlreadyRunning
from tools.web.shell.access import TenantRequest, actor
from tools.web.shell.errors import ErrorsAsMessages


def start_job(
    request: TenantRequest,
    kind: str,
    arguments: Mapping[str, object],
    *,
    running: str,
    back: str,
    started: Callable[[], None] = lambda: None,
) -> HttpResponse:
    """Starts the job, calls `started` and leads to the job's page. Leads to the job that runs already with the message
    `running`, or `back` with the reason where the job is refused."""
    with ErrorsAsMessages(request):
        try:
            job = services.start(kind, dict(arguments), by=actor(request))
            started()
        except AlreadyRunning as error:
            messages.info(request, running)
            job = error.job
        return redirect("job", pk=job.pk)
    return redirect(back)
