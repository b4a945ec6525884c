"""Jobs: the list, one of them while it runs, a new backfill with its dry run, and Cancel, Resume, Retry failed; and a job that a button of
another page starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.jobs import kinds, services
from portal.jobs.errors import AlreadyRunning, InvalidArguments, TooManyJobs
from portal.jobs.models import Job, JobState
from portal.jobs.progress import duration
from portal.tenancy.context import NoTenant, current_tenant
from portal.tenancy.models import Role
from portal.tenancy.rights import current_rights
from tools.catalogue.embedding_jobs import BACKFILL, REFRESH
from tools.catalogue.visibility import seen
from tools.imports.syncing.jobs import APPLY
from tools.models import Sync
from tools.web.embeddings.state import is_off, open_passage_circuits
from tools.web.jobs.forms import BackfillForm
from tools.web.jobs.state import JobRow, all_queues, idle_queues, queues_of
from tools.web.shell.access import TenantRequest, actor, find_row, member_page, render_part
from tools.web.shell.confirm import confirm
from tools.web.shell.errors import ErrorsAsMessages
from tools.web.shell.forms import number
from tools.web.shell.lists import known_choices, list_query, list_url, page_of, render_list
from tools.web.shell.polling import poll_count

_MOST_IN_THE_PILL = 21  # one more than are counted
_QUARTER = 25  # percent
_SHOWN_ARGUMENTS = {
    "statuses": "Embeddings",
    "source": "Source",
    "rate": "Tools per second, at most",
    "limit": "Stops after",
}

_QUEUED_STAYS = "The current batch is finished, and embeddings that are queued are still made. Resume continues from there."
_CANCELLED = {
    APPLY: "Its changes so far are undone. The plan is kept and can be applied again.",
    BACKFILL: _QUEUED_STAYS,
    REFRESH: _QUEUED_STAYS,
}
"""The effect of Cancel by kind of job, where it differs from the usual one."""


def jobs_of_header(request: HttpRequest) -> dict[str, object]:
    """Template context: the unfinished jobs for the header. The query runs only where the header is rendered."""

    def found() -> list[Job]:
        # An error page is rendered after the rollback, when no query is allowed, or outside of the tenant's context.
        if getattr(request, "member", None) is None or connection.needs_rollback:
            return []
        try:
            current_tenant()
        except NoTenant:
            return []
        return list(services.active().running_first()[:_MOST_IN_THE_PILL])

    return {"jobs_of_header": found}


@member_page("GET")
def job_pill(request: TenantRequest) -> HttpResponse:
    """The menu of the header's pill with its count, for the poll that goes on until no job is left."""
    return render(request, "jobs/pill_oob.html")


@member_page("GET")
def job_list(request: TenantRequest) -> HttpResponse:
    """The list, or its `#results` for a filter, a page or a poll."""
    query = list_query(request)
    choices = {"kind": {kind.name: kind.label for kind in kinds.all_kinds()}, "state": dict(JobState.choices)}
    known, ignored = known_choices(query, choices)
    by = actor(request) if query.get("mine") else ""
    found = services.jobs(kind=known.get("kind", ""), state=known.get("state", ""), by=by).running_first()
    page = page_of(found, query)
    rows = [JobRow(job) for job in page]
    words = [choices[name][value] for name, value in known.items()]
    context = {
        "ignored": ignored,
        "filtered": ", ".join([*words, "only mine"] if by else words),
        "rows": rows,
        "has_active": any(row.job.is_active for row in rows),
        "idle_queues": idle_queues(all_queues()),
        "choices": choices,
        "here": list_url(request.path, query),
    }
    return render_list(request, "jobs/list.html", query, page, context)


def _find(pk: UUID) -> Job:
    return find_row(Job.objects.seen().with_effective_state(), "job", pk=pk)


@member_page("GET")
def job_page(request: TenantRequest, pk: UUID) -> HttpResponse:
    """One job. Its `#job` polls while the job is active."""
    return _render(request, _find(pk))


def _render(request: TenantRequest, job: Job) -> HttpResponse:
    row = JobRow(job)
    context = {
        "job": job,
        "row": row,
        "arguments": [
            (word, _as_words(job.args[name])) for name, word in _SHOWN_ARGUMENTS.items() if job.args.get(name)
        ],
        "sync": _sync_of(job) if request.member.is_operator else None,
        "covered": current_rights().covers(job.own_rights),
        "failures": services.failures_by_error(job.pk) if job.failed else [],
        "max_resumes": settings.JOB_MAX_RESUMES,
        "idle_queues": idle_queues(queues_of(job)) if job.is_active else [],
        "troubles": open_passage_circuits() if job.is_active else [],
        "spoken": _spoken(request, row) if poll_count(request) else "",
    }
    return render_part(request, "jobs/detail.html#job", context)


def _sync_of(job: Job) -> Sync | None:
    """The sync that the job applies or has planned."""
    pk = job.args.get("sync") or job.cursor.get("sync")
    return seen(Sync.objects.filter(pk=pk)).defer("summary").first()


def _as_words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _spoken(request: TenantRequest, row: JobRow) -> str:
    """The text for screen readers of this poll: the last quarter that was passed since the poll before, or the outcome."""
    if not row.job.is_active:
        return f"{row.job.title}: {row.badge.word.lower()}."
    before = number(request.GET.get("p", ""), otherwise=100)
    quarter = (row.job.progress.percent or 0) // _QUARTER
    return f"{row.label}: {quarter * _QUARTER} % done." if quarter > before // _QUARTER else ""


@member_page("GET POST", Role.OPERATOR, has_text=True)
def new_job(request: TenantRequest) -> HttpResponse:
    """The form of a backfill. One button counts and stores nothing, the other one starts the job."""
    given = {name: request.GET[name] for name in ("statuses", "source") if request.GET.get(name)}
    form = BackfillForm(request.POST if request.method == "POST" else None, initial=given)
    estimate, other = None, None
    if form.is_valid():
        try:
            if "start" in request.POST:
                job = services.start(BACKFILL, form.arguments(), by=actor(request))
                messages.success(request, "The job was queued.")
                return redirect("job", pk=job.pk)
            estimate = services.estimate(BACKFILL, form.arguments())
        except InvalidArguments as error:
            form.add_refusals(error)
        except AlreadyRunning as error:
            other = error.job
        except TooManyJobs as error:
            form.add_error(None, str(error))
    context = {
        "form": form,
        "estimate": estimate,
        "estimate_time": duration(estimate.seconds) if estimate else "",
        "other": other,
        "is_off": is_off(),
        "idle_queues": idle_queues(all_queues()),
    }
    status = 409 if other else 422 if form.is_bound and estimate is None else 200
    return render(request, "jobs/new.html", context, status=status)


@member_page("GET POST", Role.OPERATOR)
def cancel_job(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Stops a job after its current batch, after a question."""
    if request.method == "POST":
        return _act(request, pk, services.cancel, "The cancellation was requested.")
    job = _find(pk)
    return confirm(
        request,
        title="Cancel this job?",
        quote=job.title,
        effect=_CANCELLED.get(
            job.kind,
            "The current batch is finished, and finished work is kept. Resume continues from there.",
        ),
        button="Cancel the job",
        keep="Keep running",
        dangerous=True,
        cancel=reverse("job", args=[pk]),
    )


@member_page("POST", Role.OPERATOR)
def resume_job(request: TenantRequest, pk: UUID) -> HttpResponse:
    return _act(request, pk, services.resume, "The job was queued to continue where it stopped.")


@member_page("POST", Role.OPERATOR)
def retry_job(request: TenantRequest, pk: UUID) -> HttpResponse:
    return _act(request, pk, services.retry_failed, "The failed items were queued again.")


def _act(request: TenantRequest, pk: UUID, change: Callable[[UUID], Job], done: str) -> HttpResponse:
    """Changes the job and says what was `done`, or why it was refused. The message stays on a page whose job goes on, so it tells
    what has happened and never what the job does."""
    with ErrorsAsMessages(request):
        job = change(_find(pk).pk)
        messages.success(request, "The job was cancelled." if job.state == JobState.CANCELLED else done)
    return _render(request, _find(pk)) if request.htmx else redirect("job", pk=pk)


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
