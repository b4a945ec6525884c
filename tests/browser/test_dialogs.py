"""Every question of every page in a real browser: it opens as a dialog, and its way out leads back (UI.md 3.0)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import resolve
from playwright.sync_api import Page

from embeddings.models import EmbeddingModel
from portal.jobs import services as jobs
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.imports.documents import document, import_document
from tests.support.overrides import pets
from tests.support.pages.browser import Portal, open_questions
from tools.catalogue.tools import create_tool, update_tool
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.models import McpServer, Source, Tool, ToolEmbedding

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
# The one whose address the view makes.
BY_A_VIEW = {"{{ refresh_matching }}": "refresh-matching"}


@pytest.fixture(scope="module")
def portal_environment() -> dict[str, str]:
    """It may always switch to the second model."""
    return {"EMBEDDING_SWITCH_MAX_MISSING": "1"}


@pytest.fixture(scope="module")
def portal_queues() -> tuple[str, ...]:
    """None, so that what is queued stays queued and its pages poll."""
    return ()


def asked_by_templates() -> set[str]:
    """The names of the addresses that templates ask into the dialog."""
    found = set()
    for template in TEMPLATES.rglob("*.html"):
        for address in re.findall(
            r'hx-(?:get|post)="([^"]*)"[^>]*?hx-target="#dialog"', template.read_text("utf-8")
        ):
            name = re.search(r"{% url '([\w-]+)'", address)
            found.add(name[1] if name else BY_A_VIEW[address])
    return found


def pages_with_questions(portal: Portal) -> list[str]:
    """Makes one of everything that can be asked about; the pages on which it is asked."""
    with tenant_context(portal.tenant.pk):
        by_hand = [create_tool(actor="olga", tool_id=f"by-hand-{n}", name=f"by hand {n}") for n in range(26)]
    import_document(portal.tenant, pets())
    with tenant_context(portal.tenant.pk):
        imported = Tool.objects.get(endpoint__isnull=False)
        update_tool(
            pk=imported.pk,
            expected_version=1,
            changes={"parameter_descriptions": {"body.name": "Ours."}},
            actor="olga",
        )
    import_document(portal.tenant, pets(name="Its call name."))
    planned = IncomingDocument(json.dumps(document("new")).encode(), "zoo.json", "zoo")
    plan = syncs.plan_document(planned, tenant_id=portal.tenant.pk, actor="olga")
    with tenant_context(portal.tenant.pk):
        server = McpServer.objects.create(slug="sums", url="https://sums.example/mcp")
        source = Source.objects.get(slug="shop")
        job = jobs.start("backfill_embeddings", {}, by="olga")
        ready = ToolEmbedding.objects.filter(entity=by_hand[0])
        hashed = ready.values_list("source_hash", flat=True)[0]
        ready.update(status="ready", vector=[1.0] + [0.0] * 383, vector_hash=hashed)
    with login("DATABASE_ADMIN_URL"):
        EmbeddingModel.objects.create(
            slot=0, model="all-MiniLM-L6-v2", provider="sentence-transformers", serves=True
        )
        EmbeddingModel.objects.create(slot=1, model="second", provider="sentence-transformers", serves=False)
    return [
        "/tools/",
        f"/tools/{by_hand[0].pk}/",
        f"/tools/{imported.pk}/",
        f"/tools/{imported.pk}/edit/",
        f"/tools/{imported.pk}/history/",
        "/overrides/",
        f"/sources/{source.pk}/",
        f"/sources/{plan.source_id}/syncs/{plan.pk}/",
        f"/servers/{server.pk}/",
        f"/jobs/{job.pk}/",
        "/models/",
    ]


def test_every_question_of_every_page_opens_as_a_dialog_and_closes_UI_3_0(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    paths = pages_with_questions(portal)
    page = sign_in()
    asked: set[str] = set()
    for path in paths:
        page.goto(path)
        here = {str(resolve(address.partition("?")[0]).url_name) for address, _ in open_questions(page)}
        assert here, f"{path} asks nothing"
        asked |= here
    assert asked == asked_by_templates()
