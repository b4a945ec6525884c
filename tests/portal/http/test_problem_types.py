"""API-1: every type of problem has a page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from portal.http.problem_types import PROBLEM_TYPES
from portal.http.problems import TITLES, Problem
from tools.models import Tool

ToolOf = Callable[..., Tool]


def test_api_1_every_problem_type_has_a_page_for_anybody(db: None) -> None:
    index = Client().get("/docs/problems/")
    assert index.status_code == 200
    for name, problem in PROBLEM_TYPES.items():
        page = Client().get(problem.url)
        assert page.status_code == 200
        assert name in page.content.decode()
        assert problem.url in index.content.decode()
        assert all(len(text) > 5 for text in (problem.cause, problem.fix, problem.example))
    assert Client().get("/docs/problems/nothing").status_code == 404


def test_api_1_a_problem_without_a_page_cannot_be_raised() -> None:
    assert set(TITLES.values()) <= set(PROBLEM_TYPES)
    with pytest.raises(KeyError):
        Problem(409, "New.", code="something_new")
