"""The embedding pipeline under test: writes as the application, work as the worker, a look at the rows as their owner.

Everything is committed and in one database, so what the owner sees is what any other process would see.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from psycopg.rows import dict_row

from embeddings.queue import worker
from embeddings.text import source_hash
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.embeddings.providers import hash_vector
from tests.support.threads import in_thread
from tools.catalogue import embedding_text
from tools.catalogue.tools import create_tool, delete_tool, refresh_embeddings, update_tool
from tools.models import Tool


@dataclass(slots=True)
class Pipeline:
    """A tenant's tools and their embeddings, with short names for what happens to them."""

    tenant_id: UUID
    owner: psycopg.Connection[Any]
    made: int = 0

    def add(self, description: str = "First text.", **fields: Any) -> UUID:
        self.made += 1
        with tenant_context(self.tenant_id):
            return create_tool(
                actor="test",
                tool_id=f"tool_{self.made}",
                name=f"tool_{self.made}",
                description=description,
                **fields,
            ).pk

    def change(self, pk: UUID, **changes: Any) -> None:
        with tenant_context(self.tenant_id):
            version = Tool.objects.get(pk=pk).version
            update_tool(pk=pk, expected_version=version, changes=changes, actor="test")

    def edit(self, pk: UUID, description: str) -> None:
        self.change(pk, description=description)

    def refresh(self, *pks: UUID) -> int:
        with tenant_context(self.tenant_id):
            return refresh_embeddings(pks=pks)

    def delete(self, pk: UUID) -> None:
        with tenant_context(self.tenant_id):
            delete_tool(pk=pk, actor="test")

    def text(self, pk: UUID) -> str:
        with tenant_context(self.tenant_id):
            return embedding_text.source_text(Tool.objects.select_related("endpoint").get(pk=pk))

    def work(self, **options: Any) -> worker.Drained:
        """A worker's drain, by the worker's login."""
        with login("DATABASE_WORKER_URL"):
            return worker.drain(**options)

    @contextmanager
    def paused_worker(self, gate: Any) -> Iterator[None]:
        """A worker in a thread that has claimed and read, and stands at the gate of a GatedEmbedder; it goes on, and
        ends, at the end of the block."""
        with in_thread(self.work):
            assert gate.begun.wait(20)
            try:
                yield
            finally:
                gate.go_on.set()

    # --- What the owner sees ---------------------------------------------------------------------------------------

    def all(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        with self.owner.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, parameters).fetchall()

    def embedding(self, pk: UUID) -> dict[str, Any]:
        [row] = self.all(
            "SELECT xmin::text AS written, *, vector::text AS vector FROM tools_toolembedding WHERE entity_id = %s",
            pk,
        )
        return row

    def tasks(self) -> list[dict[str, Any]]:
        return self.all("SELECT xmin::text AS written, * FROM embeddings_embeddingtask ORDER BY entity_id")

    def task(self, pk: UUID) -> dict[str, Any] | None:
        return next((task for task in self.tasks() if task["entity_id"] == pk), None)

    def circuit(self, model: str = "model-1") -> dict[str, Any] | None:
        """The open circuit of the model's texts, with the seconds that are left of it."""
        rows = self.all(
            "SELECT *, extract(epoch FROM next_try - now())::float AS left FROM embeddings_embeddingcircuit "
            "WHERE model = %s AND purpose = 'passage' AND next_try IS NOT NULL",
            model,
        )
        return rows[0] if rows else None

    def provider_is_tried_again(self) -> None:
        """As if the pause of every circuit were over."""
        self.owner.execute(
            "UPDATE embeddings_embeddingcircuit SET next_try = now() WHERE next_try IS NOT NULL"
        )

    def status(self, pk: UUID) -> str:
        return str(self.embedding(pk)["status"])

    def make_due(self) -> None:
        """As if every lease and every pause were over."""
        self.owner.execute(
            "UPDATE embeddings_embeddingtask SET next_attempt_at = now() WHERE status <> 'failed'"
        )

    def check_ready(self, pk: UUID) -> None:
        """The vector is the one of the text that the tool has now, and every column says so."""
        check_in_step(self.embedding(pk), self.text(pk))
        assert self.task(pk) is None

    def check_consistent(self) -> None:
        """What holds at every moment, whatever happened (RELIABILITY R2): a ready row is current, a pending one has a live
        task for its text, no task is left without an entity."""
        rows = {
            row["entity_id"]: row
            for row in self.all("SELECT *, vector::text AS vector FROM tools_toolembedding")
        }
        tasks = {task["entity_id"]: task for task in self.tasks()}
        assert tasks.keys() <= rows.keys()
        for pk, row in rows.items():
            text, task = self.text(pk), tasks.get(pk)
            assert row["source_hash"] == source_hash(text)
            if row["status"] == "ready":
                assert row["vector_hash"] == source_hash(text)
                check_vector(row["vector"], text)
            elif row["status"] == "pending" and row["active"]:
                assert task is not None
                assert task["status"] != "failed"
                assert task["source_hash"] == source_hash(text)
            elif row["status"] == "failed":
                assert task is not None
                assert task["status"] == "failed"


def check_vector(vector: str, text: str) -> None:
    given = np.array(vector.strip("[]").split(","), dtype=np.float32)
    np.testing.assert_allclose(given, hash_vector(text), atol=1e-6)


def check_in_step(row: dict[str, Any], text: str) -> None:
    assert (row["status"], row["error"]) == ("ready", "")
    assert row["vector_hash"] == row["source_hash"] == source_hash(text)
    check_vector(row["vector"], text)
