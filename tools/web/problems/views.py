"""The pages at the `type` of a problem: why it happens and what to do. Public: they show no data."""

from __future__ import annotations

import json

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from portal.http.problem_types import PROBLEM_TYPES


@require_GET
def problem_list(request: HttpRequest) -> HttpResponse:
    return render(request, "problems/list.html", {"problems": PROBLEM_TYPES.values()})


@require_GET
def problem_page(request: HttpRequest, name: str) -> HttpResponse:
    problem = PROBLEM_TYPES.get(name)
    if problem is None:
        raise Http404("There is no such type of problem.")
    example = {
        "type": problem.url,
        "title": problem.name,
        "status": problem.status,
        "detail": problem.example,
        "instance": "/api/v1/tools",
        "request_id": "5d0c7f0c6f4e4b8c9f431a2b3c4d5e6f",
    }
    context = {"problem": problem, "example": json.dumps(example, indent=2)}
    return render(request, "problems/page.html", context)
