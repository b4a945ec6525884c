"""How the tests of search ask, and how they put a tool's vector where they want it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from pgvector import Vector

from portal.tenancy.models import Scope
from portal.tenancy.rights import Rights
from tests.support.embeddings.providers import hash_vector
from tools.models import Tool, ToolEmbedding
from tools.search import service
from tools.search.query import SearchAnswer, SearchFilters, SearchQuery


def ask(
    tenant_id: UUID, text: str, top_k: int = 20, *, rights: Rights | None = None, **filters: Any
) -> SearchAnswer:
    """Without `rights`, as the tenant itself."""
    rights = rights or Rights.unrestricted(tenant_id, "test")
    return service.search(rights, SearchQuery(text, top_k, SearchFilters(**filters)))


def reader(tenant_id: UUID, username: str = "", **rights: Any) -> Rights:
    """Somebody who may read alone: a member of this name, or a key."""
    scopes = frozenset({Scope.SEARCH_READ, Scope.TOOLS_READ})
    return Rights(tenant_id, "reader", scopes, username=username, **rights)


def found(answer: SearchAnswer) -> list[str]:
    """The tool_ids of the answer, best first."""
    return [hit.tool["tool_id"] for hit in answer.hits]


def toward(question: str, cosine: float, noise: object) -> np.ndarray:
    """A vector of that cosine to the question as HashEmbedder embeds it; `noise` makes it one of many."""
    aim, other = hash_vector(question), hash_vector(f"noise {noise}")
    other = other - (other @ aim) * aim
    return cosine * aim + np.sqrt(1 - cosine**2) * other / np.linalg.norm(other)


def place(tool: Tool, vector: np.ndarray) -> None:
    """The tool is ready, with this vector."""
    changed = ToolEmbedding.objects.filter(entity=tool).update(
        status="ready", vector=vector, vector_hash=F("source_hash"), embedded_at=Now()
    )
    assert changed == 1


def candidates(
    text: str | None, vector: np.ndarray | None = None, rows: int = 40, **options: Any
) -> list[dict[str, Any]]:
    """The function itself, with any of its parameters."""
    given: dict[str, Any] = {"query_text": text, "max_results": rows, **options}
    named = "".join(f", {name} => %({name})s" for name in given)
    given["vector"] = None if vector is None else Vector(vector).to_text()
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT * FROM search_candidates(kind => 'tool', query_vector => %(vector)s::vector{named})",
            given,
        )
        columns = [column.name for column in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
