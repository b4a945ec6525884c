"""EMB-8, EMB-10: a tool is counted and chosen once, by the embedding that serves, however many models have one of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command

from embeddings.backfill.kinds import count_backfill
from embeddings.backfill.scan import ALL_STATUSES, StatusCounts, count_by_status
from embeddings.models import EmbeddingTask
from portal.tenancy.models import Tenant
from tools.catalogue.embedding_text import ENTITY
from tools.models import Tool, ToolEmbedding

pytestmark = pytest.mark.usefixtures("one_or_two_models")


@pytest.fixture
def tools(make_tool: Callable[..., Tool]) -> list[Tool]:
    """Four, the first of which failed in the serving model."""
    made = [make_tool() for _ in range(4)]
    ToolEmbedding.serving().filter(entity=made[0]).update(status="failed", error="x")
    return made


def test_each_tool_is_counted_once_by_its_serving_embedding_EMB_8(tools: list[Tool]) -> None:
    assert count_by_status(ENTITY) == StatusCounts(total=4, pending=3, failed=1)
    assert count_backfill(ENTITY, Tool.objects.all(), ALL_STATUSES, None) == (4, 1)
    assert Tool.objects.all().count_by_embedding_status() == {"pending": 3, "failed": 1}


def test_each_tool_is_chosen_once_by_its_serving_embedding_EMB_10(tools: list[Tool]) -> None:
    assert list(Tool.objects.all().with_embedding_status("failed")) == tools[:1]
    assert Tool.objects.all().with_embedding_status("pending").count() == 3


def test_the_command_refreshes_what_failed_where_it_serves_EMB_9(tools: list[Tool], tenant: Tenant) -> None:
    EmbeddingTask.objects.all().delete()
    ToolEmbedding.objects.exclude(pk__in=ToolEmbedding.serving()).update(status="failed", error="x")
    out = StringIO()
    call_command("refresh_embedding", "--failed", "--json", tenant=tenant.slug, stdout=out)
    assert json.loads(out.getvalue()) == {"queued": 1}
    assert set(EmbeddingTask.objects.values_list("entity_id", flat=True)) == {tools[0].pk}
