"""What services refuse, as the problems that callers get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from rest_framework.exceptions import NotFound
from rest_framework.response import Response

from portal.http.bulkhead import bulkhead
from portal.http.conditional import version_etag
from portal.http.problems import Problem
from portal.jobs.errors import AlreadyRunning, InvalidArguments, JobError
from portal.outbound.errors import FetchError, FetchTimeout, InvalidTarget
from tools.catalogue.errors import (
    Busy,
    CatalogueError,
    Invalid,
    ManagedBySource,
    NameTaken,
    RemovalsNeedConfirmation,
    StaleVersion,
)
from tools.imports.formats.specs import DocumentRefused


@contextmanager
def as_problems() -> Iterator[None]:
    """A block whose services may refuse."""
    try:
        yield
    except ObjectDoesNotExist as error:
        # It was there when the request began: somebody was faster.
        raise NotFound("There is no such thing here any more.") from error
    except CatalogueError as error:
        raise _of_catalogue(error) from error
    except JobError as error:
        raise _of_job(error) from error
    except DocumentRefused as error:
        raise Problem(422, str(error), code="invalid_source_document") from error
    except InvalidTarget as error:
        raise Problem(422, str(error), code="unprocessable") from error
    except FetchTimeout as error:
        raise Problem(504, str(error), code="upstream_timeout") from error
    except FetchError as error:
        raise Problem(502, str(error), code="upstream_error") from error


def in_bulkhead(handler: Callable[..., Response]) -> Callable[..., Response]:
    """A view's method that asks others, or reads their documents: it holds a place in the bulkhead, and answers 503 where there is none."""

    @wraps(handler)
    def holding_a_place(*args: Any, **kwargs: Any) -> Response:
        with bulkhead():
            return handler(*args, **kwargs)

    return holding_a_place


def _of_catalogue(error: CatalogueError) -> Problem:
    if isinstance(error, StaleVersion):
        etag = version_etag(error.current.version)
        return Problem(412, str(error), headers={"ETag": etag}, current_etag=etag)
    if isinstance(error, Invalid):
        return _invalid(str(error), {f"/{field}": texts for field, texts in error.errors.items()})
    if isinstance(error, RemovalsNeedConfirmation):
        return Problem(
            409, str(error), code="removals_need_confirmation", removed=error.removed, active=error.active
        )
    return Problem(409, str(error), code=_CONFLICTS.get(type(error), "conflict"))


_CONFLICTS: dict[type[CatalogueError], str] = {
    Busy: "busy",
    ManagedBySource: "managed_by_source",
    NameTaken: "name_taken",
}


def _of_job(error: JobError) -> Problem:
    if isinstance(error, InvalidArguments):
        places = {
            "/kind" if name == "kind" else f"/args/{name}": texts for name, texts in error.errors.items()
        }
        return _invalid(str(error), places)
    if isinstance(error, AlreadyRunning):
        return Problem(
            409, str(error), code="already_running", headers={"Location": job_address(error.job.pk)}
        )
    return Problem(409, str(error))


def _invalid(sentence: str, errors: dict[str, list[str]]) -> Problem:
    entries = [
        {"code": "invalid", "detail": text, "pointer": pointer}
        for pointer, texts in errors.items()
        for text in texts
    ]
    return Problem(422, sentence, code="validation_error", errors=entries)


def job_address(pk: UUID) -> str:
    """Of a job."""
    return f"/api/v1/jobs/{pk}"
