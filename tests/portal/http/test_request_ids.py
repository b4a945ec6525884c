"""API-1: the id of a request, in answers, problems and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from portal.http.request_ids import RequestIdFilter
from tools.models import Tool

ToolOf = Callable[..., Tool]


def test_api_1_a_request_keeps_its_own_id_if_that_is_reasonable(agent: APIClient) -> None:
    assert agent.get("/api/v1/me", headers={"X-Request-ID": "abc-1"})["X-Request-ID"] == "abc-1"
    assert agent.get("/api/v1/nowhere", headers={"X-Request-ID": "abc-2"}).json()["request_id"] == "abc-2"
    for unfit in ("", "x" * 129, "a\x07b", "é"):
        given = agent.get("/api/v1/me", headers={"X-Request-ID": unfit})["X-Request-ID"]
        assert given != unfit
        assert len(given) == 32
    assert agent.get("/api/v1/me")["X-Request-ID"] != agent.get("/api/v1/me")["X-Request-ID"]


def test_api_1_a_line_of_the_log_names_the_request_it_belongs_to(agent: APIClient) -> None:
    record = logging.LogRecord("x", logging.INFO, "x", 1, "x", None, None)
    agent.get("/api/v1/me", headers={"X-Request-ID": "from-me"})
    assert RequestIdFilter().filter(record)
    assert record.request_id == "from-me"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({"traceparent": f"00-{'4b' * 16}-{'00f0' * 4}-01"}, True),
        ({"traceparent": f"cc-{'4b' * 16}-{'00f0' * 4}-01-what-comes-later"}, True),
        ({"traceparent": f"00-{'0' * 32}-{'00f0' * 4}-01"}, False),
        ({"traceparent": f"ff-{'4b' * 16}-{'00f0' * 4}-01"}, False),
        ({"traceparent": f"00-{'4B' * 16}-{'00f0' * 4}-01"}, False),
    ],
)
def test_api_1_a_request_without_an_id_has_its_traces(
    agent: APIClient, headers: dict[str, str], *, known: bool
) -> None:
    answered = agent.get("/api/v1/me", headers=headers)["X-Request-ID"]
    assert (answered == "4b" * 16) == known
    both = agent.get("/api/v1/me", headers={**headers, "X-Request-ID": "from-me"})
    assert both["X-Request-ID"] == "from-me"
