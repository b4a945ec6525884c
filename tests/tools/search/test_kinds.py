"""A second kind of entity is searched with its own tables, triggers and condition, and no line of the search is written again.

Notes are that kind, made as a migration would make them (tools/search/kinds.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import psycopg
import pytest
from django.db import DataError, ProgrammingError, connection, models, transaction
from pgvector import Vector

from embeddings.models import EntityEmbedding
from portal.tenancy.context import tenant_context
from portal.tenancy.fields import TenantForeignKey
from portal.tenancy.models import Tenant, TenantModel
from portal.tenancy.rls import isolate
from tests.support.embeddings.providers import hash_vector
from tests.support.search import toward
from tools.search.kinds import index_signatures, keep_postings, let_search_read, of_search, postings_table


class Memo(TenantModel):
    title = models.TextField()
    shelf = models.TextField(default="")
    active = models.BooleanField(default=True)

    class Meta(TenantModel.Meta):
        app_label = "memos"


class MemoEmbedding(EntityEmbedding):
    entity = TenantForeignKey(Memo, on_delete=models.CASCADE, related_name="+")

    class Meta(EntityEmbedding.Meta):
        app_label = "memos"
        constraints: ClassVar[list[models.BaseConstraint]] = []


SEARCH_VECTOR = """
ALTER TABLE memos_memo ADD COLUMN search_vector tsvector NOT NULL GENERATED ALWAYS AS (
    setweight(to_tsvector('pg_catalog.english', tools_words(title)), 'A')) STORED
"""
KIND = """
CREATE FUNCTION search_kind_memo(
    filters jsonb, rights jsonb, vector_slot integer,
    OUT entities regclass, OUT embeddings regclass, OUT postings regclass,
    OUT passes text, OUT hidden text, OUT filtered boolean, OUT operators_weight text
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    entities := 'public.memos_memo'; embeddings := 'public.memos_memoembedding'; postings := 'public.memos_posting';
    passes := format('entity.tenant_id = %L AND entity.active', current_setting('portal.tenant')::uuid);
    hidden := 'false';
    filtered := filters ? 'shelf';
    operators_weight := '1.0::double precision';
    IF filtered THEN
        passes := passes || format(' AND entity.shelf = ANY (%L)', ARRAY(SELECT jsonb_array_elements_text(filters -> 'shelf')));
    END IF;
END;
$$
"""
OPERATIONS: list[Any] = [
    isolate("memos_memo"), isolate("memos_memoembedding"),
    postings_table("memos_posting"), isolate("memos_posting", worker="SELECT"),
    keep_postings("memos_memo", "memos_posting"), index_signatures("memos_memoembedding"),
    let_search_read("memos_memo", "memos_memoembedding", "memos_posting"),
]  # fmt: skip


@pytest.fixture
def memos(db: None, admin_database: psycopg.Connection[Any]) -> Iterator[None]:
    with connection.schema_editor(collect_sql=True) as editor:
        for model in (Memo, MemoEmbedding):
            editor.create_model(model)
    for statement in editor.collected_sql:
        admin_database.execute(statement)
    statements = [SEARCH_VECTOR, *(one.sql for one in OPERATIONS), KIND, of_search("search_kind_memo").sql]
    for statement in statements:
        admin_database.execute(statement)
    yield
    connection.close()
    admin_database.execute(
        "DROP FUNCTION search_kind_memo; DROP TABLE memos_memoembedding, memos_memo, memos_posting CASCADE"
    )
    admin_database.execute("DROP FUNCTION memos_posting_keep")


def write(title: str, cosine: float | None, **fields: Any) -> None:
    memo = Memo.objects.create(title=title, **fields)
    MemoEmbedding.objects.create(
        entity=memo, status="pending" if cosine is None else "ready", source_hash="x", vector_hash="x", model="m",
        vector=None if cosine is None else toward("invoice", cosine, title), active=memo.active,
    )  # fmt: skip


def found(
    text: str, vector: np.ndarray | None = None, kind: str = "memo", **options: Any
) -> list[tuple[str, str]]:
    given = {name: json.dumps(value) if name == "filters" else value for name, value in options.items()}
    named = "".join(f", {name} => %({name})s" for name in given)
    given |= {"kind": kind, "text": text, "vector": None if vector is None else Vector(vector).to_text()}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, match_type FROM search_candidates(kind => %(kind)s, query_vector => %(vector)s::vector, "
            f"query_text => %(text)s, max_results => 20{named})",
            given,
        )
        titles = dict(Memo.objects.values_list("pk", "title"))
        return [(titles[pk], match_type) for pk, match_type in cursor.fetchall()]


@pytest.mark.parametrize("limits", [(2500, 10_000), (0, 0)], ids=["few", "many"])
def test_a_second_kind_is_searched_by_words_by_meaning_and_behind_its_own_filter_EMB_11(
    limits: tuple[int, int], memos: None, make_tenant: Any
) -> None:
    options = dict(zip(("exact_limit", "filtered_limit"), limits, strict=True))
    mine, theirs = make_tenant(), make_tenant()
    for tenant in (mine, theirs):
        with tenant_context(tenant.pk):
            write("pay the invoice", 0.3, shelf="a")
            write("bills of March", 0.8, shelf="b")
            write("a gone invoice", 0.9, shelf="a", active=False)
            write("invoice without a vector", None, shelf="b")
    with tenant_context(mine.pk):
        aim = hash_vector("invoice")
        given = found("invoice", aim, **options)
        assert dict(given) == {
            "pay the invoice": "both", "bills of March": "semantic", "invoice without a vector": "keyword",
        }  # fmt: skip
        assert len(given) == 3
        assert [title for title, _ in found("", aim, **options)] == ["bills of March", "pay the invoice"]
        assert found("invoice", aim, filters={"shelf": ["a"]}, **options) == [("pay the invoice", "both")]
        assert {title for title, _ in found("march", None, **options)} == {"bills of March"}


def test_the_postings_of_a_second_kind_are_in_step_after_every_write_EMB_11(
    memos: None, tenant: Tenant
) -> None:
    def lexemes() -> set[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT lexeme FROM memos_posting")
            return {lexeme for (lexeme,) in cursor.fetchall()}

    write("pay the invoice", 0.3)
    assert lexemes() == {"pay", "invoic"}
    Memo.objects.update(title="getUserById")
    assert lexemes() == {"get", "user", "id"}
    Memo.objects.update(active=False)
    assert lexemes() == set()
    Memo.objects.update(active=True)
    Memo.objects.all().delete()
    assert lexemes() == set()


@pytest.mark.parametrize("kind", ["unheard", "tool(1); DROP TABLE tools_tool; --", ""])
def test_a_kind_that_nobody_made_is_an_error_SRC_1(kind: str, memos: None, tenant: Tenant) -> None:
    with pytest.raises(ProgrammingError, match="search_kind_"), transaction.atomic():
        found("invoice", None, kind)


def test_a_filter_of_another_kind_is_an_error_SRC_2(memos: None, tenant: Tenant) -> None:
    with pytest.raises(DataError, match="no filter shelf"), transaction.atomic():
        found("invoice", None, "tool", filters={"shelf": ["a"]})
