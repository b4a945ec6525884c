"""A tool of a small OpenAPI document, and a way to say how an embedding stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embeddings import slots
from embeddings.models import EmbeddingTask
from portal.tenancy.models import Tenant
from tests.support.pages.web import import_shop
from tools.models import Tool, ToolEmbedding


@pytest.fixture
def imported_tool(tenant: Tenant) -> Tool:
    import_shop("Lists the orders of the shop.")
    tool: Tool = Tool.objects.select_related("endpoint", "source").get(name="listOrders")
    return tool


@pytest.fixture
def set_embedding() -> Callable[..., None]:
    """Puts a tool's serving embedding and its task into a state; `task=None` removes the task."""

    def put(tool: Tool, status: str, *, task: dict[str, Any] | None = None, **fields: Any) -> None:
        rows = ToolEmbedding.serving().filter(entity=tool)
        if status == "ready":
            row = rows.get()
            fields = {"vector": [1.0] + [0.0] * 383, "vector_hash": row.source_hash, **fields}
        rows.update(status=status, **fields)
        tasks = EmbeddingTask.objects.filter(entity_id=tool.pk, model=slots.serving().model)
        if task is None:
            tasks.delete()
        else:
            tasks.update(**task)

    return put
