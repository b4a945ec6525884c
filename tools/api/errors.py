"""The problems that callers get where a service refuses. The tools app registers them when it is ready."""

from __future__ import annotations

from metrics.selections import NotReturned, UnknownSearch
from portal.http.conditional import version_etag
from portal.http.problems import Members, register_problem
from portal.jobs.errors import AlreadyRunning, InvalidArguments, JobError, TooManyJobs
from portal.outbound.errors import FetchError, FetchTimeout, InvalidTarget
from tools.api.jobs.addresses import job_address
from tools.catalogue.errors import (
    BeyondRights,
    Busy,
    CatalogueError,
    Invalid,
    ManagedBySource,
    NameTaken,
    RemovalsNeedConfirmation,
    StaleVersion,
)
from tools.imports.formats.specs import DocumentRefused
from tools.search.service import SearchUnavailable


def register() -> None:
    """Gives each error of the services its status, its type of problem and its further members."""
    register_problem(CatalogueError, 409)
    register_problem(BeyondRights, 403)
    register_problem(Busy, 409, "busy")
    register_problem(ManagedBySource, 409, "managed_by_source")
    register_problem(NameTaken, 409, "name_taken")
    register_problem(StaleVersion, 412, members=_current_etag)
    register_problem(Invalid, 422, "validation_error", members=_invalid_fields)
    register_problem(RemovalsNeedConfirmation, 409, "removals_need_confirmation", members=_removals)
    register_problem(JobError, 409)
    register_problem(AlreadyRunning, 409, "already_running", members=_running_job)
    register_problem(TooManyJobs, 429, "too_many_jobs")
    register_problem(InvalidArguments, 422, "validation_error", members=_invalid_arguments)
    register_problem(DocumentRefused, 422, "invalid_source_document")
    register_problem(InvalidTarget, 422)
    register_problem(FetchTimeout, 504)
    register_problem(FetchError, 502)
    register_problem(SearchUnavailable, 503)
    register_problem(UnknownSearch, 404)
    register_problem(
        NotReturned, 422, "validation_error", members=lambda error: _errors({"/tool": [str(error)]})
    )


def _current_etag(error: StaleVersion) -> Members:
    etag = version_etag(error.current.version)
    return {"headers": {"ETag": etag}, "current_etag": etag}


def _invalid_fields(error: Invalid) -> Members:
    return _errors({f"/{field}": texts for field, texts in error.errors.items()})


def _invalid_arguments(error: InvalidArguments) -> Members:
    places = {name: "/kind" if name == "kind" else f"/args/{name}" for name in error.errors}
    return _errors({places[name]: texts for name, texts in error.errors.items()})


def _removals(error: RemovalsNeedConfirmation) -> Members:
    return {"removed": error.removed, "active": error.active}


def _running_job(error: AlreadyRunning) -> Members:
    return {"headers": {"Location": job_address(error.job.pk)}}


def _errors(places: dict[str, list[str]]) -> Members:
    """The `errors` of a problem, of sentences by JSON pointer."""
    return {
        "errors": [
            {"code": "invalid", "detail": text, "pointer": pointer}
            for pointer, texts in places.items()
            for text in texts
        ]
    }
