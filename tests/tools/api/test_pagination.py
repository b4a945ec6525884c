"""API-1: pages that do not shift."""

from __future__ import annotations

from collections.abc import Callable

from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import TOOLS
from tools.catalogue.tools import delete_tool
from tools.models import Tool

ToolOf = Callable[..., Tool]


def test_api_1_pages_neither_lose_nor_repeat_a_tool_while_others_come_and_go(
    owner: Tenant, agent: APIClient, tool_of: ToolOf
) -> None:
    before = [f"m{number}" for number in range(9)]
    for name in before:
        tool_of(name)
    seen, url, number = [], f"{TOOLS}?limit=2", 0
    while url:
        page = agent.get(url).json()
        seen += [one["tool_id"] for one in page["results"]]
        url = page["next"]
        tool_of(f"a{number}")  # before everything that was shown
        tool_of(f"z{number}")
        with tenant_context(owner.pk):
            delete_tool(pk=Tool.objects.get(tool_id=f"z{number}").pk, actor="test", expected_version=1)
        number += 1
    assert [one for one in seen if one in before] == before
    assert len(seen) == len(set(seen))
