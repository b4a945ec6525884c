"""API-1: tools by REST: list, one, edit under If-Match, refresh, and the upload of a document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import PETS, TOOLS, assert_problem, patch, upload
from tests.support.clients import make_api
from tools.catalogue.tools import create_tool
from tools.models import ManualOverride, Source, SourceDocument, Tool

OPENAPI = Path(__file__).resolve().parents[4] / "shared" / "inputs" / "openapi"
ToolOf = Callable[..., Tool]
pytestmark = pytest.mark.usefixtures("one_or_two_models")


def test_cat_1_a_tool_is_made_read_and_found_by_either_name(agent: APIClient) -> None:
    made = agent.post(
        TOOLS, {"tool_id": "send mail/now", "name": "Send", "description": "Sends."}, format="json"
    )
    assert made.status_code == 201
    body = made.json()
    assert made["Location"] == f"{TOOLS}/{body['id']}"
    assert made["ETag"] == '"v1"'
    assert body["embedding_status"] == "pending"
    read = agent.get(made["Location"])
    assert (read.json(), read["ETag"]) == (body, '"v1"')
    agent.post(TOOLS, {"tool_id": "mail", "namespace": "office", "name": "Mail"}, format="json")
    assert agent.get(f"{TOOLS}/mail").status_code == 404
    assert agent.get(f"{TOOLS}/mail?namespace=office").status_code == 200


def test_cat_1_a_tool_id_that_looks_like_a_uuid_is_still_a_tool_id(agent: APIClient) -> None:
    for tool_id in ("deadbeef" * 4, "5d0c7f0c-6f4e-4b8c-9f43-1a2b3c4d5e6f"):
        agent.post(TOOLS, {"tool_id": tool_id, "name": tool_id}, format="json")
        assert agent.get(f"{TOOLS}/{tool_id}").json()["tool_id"] == tool_id


def test_api_1_a_taken_tool_id_is_a_409_and_a_wrong_value_names_its_field(
    agent: APIClient, tool_of: ToolOf
) -> None:
    tool_of("send_mail", active=False)
    taken = agent.post(TOOLS, {"tool_id": "send_mail", "name": "x"}, format="json")
    assert_problem(taken, 409, "name_taken")
    for wrong in (
        {"name": "x"},
        {"tool_id": "a", "name": ""},
        {"tool_id": "a", "name": "x", "semantic_weight": 3.1},
        {"tool_id": "a", "name": "x", "sensitivity": "secret"},
        {"tool_id": "a" * 201, "name": "x"},
        {"tool_id": "a", "name": "x", "tags": "mail"},
        {"tool_id": "a", "name": "x", "version": 7},
        {"tool_id": "a", "name": "x", "vector": [0.1]},
    ):
        problem = assert_problem(agent.post(TOOLS, wrong, format="json"), 400, "validation_error")
        assert problem["errors"][0]["pointer"] in {
            "/tool_id",
            "/name",
            "/semantic_weight",
            "/sensitivity",
            "/tags",
            "/version",
            "/vector",
        }
    assert_problem(agent.post(TOOLS, {"tool_id": "a", "name": "x", "parameters": [1]}, format="json"), 422)


def test_api_1_a_change_needs_the_version_that_was_seen(agent: APIClient, tool_of: ToolOf) -> None:
    tool = tool_of("send_mail")
    assert_problem(patch(agent, tool.pk, {"description": "New."}, None), 428, "precondition_required")
    changed = patch(agent, tool.pk, {"description": "New."})
    assert (changed.status_code, changed["ETag"], changed.json()["description"]) == (200, '"v2"', "New.")
    stale = assert_problem(patch(agent, tool.pk, {"description": "Newer."}), 412, "precondition_failed")
    assert stale["current_etag"] == '"v2"'
    for unfit in ("1", "v", '"vx"', '"v1", "v3"', '"v²"', '"v99999999999999999999"'):
        assert_problem(patch(agent, tool.pk, {"description": "Newer."}, unfit), 412)
    assert agent.get(f"{TOOLS}/send_mail").json()["description"] == "New."
    same = patch(agent, tool.pk, {"description": "New."}, 'W/"v2"')
    assert (same.status_code, same["ETag"]) == (200, '"v2"')  # nothing changed, so nothing was written
    problem = assert_problem(patch(agent, tool.pk, {"parameters": ["a"]}, '"v2"'), 422, "validation_error")
    assert problem["errors"] == [
        {"code": "invalid", "detail": "Must be a JSON object.", "pointer": "/parameters"}
    ]
    assert_problem(patch(agent, tool.pk, {"tool_id": "other"}, '"v2"'), 400)


def test_api_1_a_deletion_needs_the_version_too_and_leaves_imported_tools_to_their_source(
    agent: APIClient, tool_of: ToolOf, owner: Tenant
) -> None:
    tool = tool_of("send_mail")
    assert_problem(agent.delete(f"{TOOLS}/send_mail"), 428)
    assert_problem(agent.delete(f"{TOOLS}/send_mail", headers={"If-Match": '"v2"'}), 412)
    assert agent.delete(f"{TOOLS}/send_mail", headers={"If-Match": '"v1"'}).status_code == 204
    assert agent.get(f"{TOOLS}/{tool.pk}").status_code == 404
    upload(agent, PETS)
    refused = agent.delete(f"{TOOLS}/addPet?namespace=pets", headers={"If-Match": '"v1"'})
    assert_problem(refused, 409, "managed_by_source")


def test_api_1_the_list_goes_page_by_page_without_loss_or_repeat(agent: APIClient, tool_of: ToolOf) -> None:
    for number in range(7):
        tool_of(f"tool_{number}", name="same" if number < 4 else f"tool_{number}")
    seen: list[str] = []
    url = f"{TOOLS}?limit=2"
    while url:
        page = agent.get(url)
        body = page.json()
        assert len(body["results"]) <= 2
        seen += [tool["tool_id"] for tool in body["results"]]
        if body["next"]:
            assert f'<{body["next"]}>; rel="next"' in page["Link"]
            assert (
                agent.get(f"{TOOLS}?limit=2", {"limit": 2, "cursor": body["next_cursor"]}).json()["results"]
                != body["results"]
            )
        else:
            assert body["next_cursor"] is None
        url = body["next"]
    assert sorted(seen) == [f"tool_{number}" for number in range(7)]
    assert len(agent.get(TOOLS).json()["results"]) == 7
    for wrong in (
        "limit=0",
        "limit=-1",
        "limit=many",
        "limit=",
        "limit=101",
        "limit=" + "9" * 5000,
        "count=yes",
        "colour=red",
    ):
        assert_problem(agent.get(f"{TOOLS}?{wrong}"), 400, "validation_error")
    for wrong in ("cursor=x", "cursor=cD0x&cursor=y"):
        assert_problem(agent.get(f"{TOOLS}?{wrong}"), 400, "invalid_cursor")
    whole = agent.get(f"{TOOLS}?limit=100&count=true").json()
    assert (len(whole["results"]), whole["total"]) == (7, 7)
    assert agent.get(f"{TOOLS}?limit=2&count=true&q=tool_5").json()["total"] == 1
    assert "total" not in agent.get(TOOLS).json()


def test_api_1_the_list_is_filtered(agent: APIClient, tool_of: ToolOf) -> None:
    tool_of("send_mail", tags=["mail"], category="office", sensitivity="public")
    tool_of("play_song", name="play_song", description="Music.", tool_type="python", routing_domain="fun")
    tool_of("gone", active=False)
    upload(agent, PETS)

    def found(**filters: str) -> set[str]:
        response = agent.get(TOOLS, filters)
        assert response.status_code == 200, response.content
        return {tool["tool_id"] for tool in response.json()["results"]}

    assert found() == {"send_mail", "play_song", "listPets", "addPet"}
    assert found(q="LETTER") == {"send_mail"}
    assert found(tag="mail") == {"send_mail"}
    assert found(category="office") == {"send_mail"}
    assert found(tool_type="python") == {"play_song"}
    assert found(routing_domain="fun") == {"play_song"}
    assert (
        found(source="pets")
        == {"listPets", "addPet"}
        == found(source_protocol="openapi")
        == found(namespace="pets")
    )
    assert found(sensitivity="public") == {"send_mail"}
    assert found(embedding_status="ready") == set()
    assert len(found(embedding_status="pending")) == 4
    counted = agent.get(TOOLS, {"embedding_status": "pending", "count": "true"}).json()
    assert (counted["total"], len(counted["results"])) == (4, 4)
    assert found(has_override="true") == set()
    assert_problem(agent.get(f"{TOOLS}?tool_type=steam"), 400, "validation_error")


def test_api_1_a_page_of_tools_costs_a_fixed_number_of_statements(
    agent: APIClient, tool_of: ToolOf, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        tool_of(f"tool_{number}")
    with django_assert_max_num_queries(13):
        assert len(agent.get(f"{TOOLS}?limit=30").json()["results"]) == 30


def test_emb_9_refresh_is_accepted_and_a_second_press_is_harmless(
    agent: APIClient, tool_of: ToolOf, rows: Any, owner: Tenant, settings: Any
) -> None:
    tool = tool_of("send_mail")
    for _ in range(2):
        answer = agent.post(f"{TOOLS}/send_mail/embedding/refresh")
        assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    with tenant_context(owner.pk):
        tasks = "SELECT DISTINCT count(*) FROM embeddings_embeddingtask WHERE entity_id = %s GROUP BY model"
        assert rows(tasks, [tool.pk]) == [(1,)]
    tool_of("blank_one", name="…", description="", active=False)
    assert_problem(agent.post(f"{TOOLS}/blank_one/embedding/refresh"), 409)
    settings.EMBEDDING_PROVIDER = "disabled"
    assert_problem(agent.post(f"{TOOLS}/send_mail/embedding/refresh"), 409)


def test_emb_7_no_answer_shows_a_vector(agent: APIClient, tool_of: ToolOf, owner: Tenant) -> None:
    from tests.support.embeddings.providers import hash_vector
    from tools.models import ToolEmbedding

    tool = tool_of("send_mail")
    vector = hash_vector("anything")
    with tenant_context(owner.pk):
        row = ToolEmbedding.serving().get(entity=tool)
        ToolEmbedding.objects.filter(pk=row.pk).update(
            vector=vector, vector_hash=row.source_hash, status="ready"
        )
    for path in (TOOLS, f"{TOOLS}/send_mail", f"{TOOLS}/send_mail/embedding", f"{TOOLS}/search?query=mail"):
        text = agent.get(path).content.decode()
        assert '"vector"' not in text
        assert str(float(vector[0]))[:9] not in text
    state = agent.get(f"{TOOLS}/send_mail/embedding").json()
    assert set(state) == {
        "status",
        "model",
        "dimension",
        "source_hash",
        "current",
        "truncated",
        "embedded_at",
        "error",
    }
    assert (state["status"], state["current"]) == ("ready", True)


def test_syn_1_a_document_is_imported_by_upload(agent: APIClient, owner: Tenant) -> None:
    dry = upload(agent, PETS, dry_run="true")
    assert (dry.status_code, dry.json()["added"], dry.json()["dry_run"]) == (200, 2, True)
    assert agent.get("/api/v1/sources").json()["results"] == []
    done = upload(agent, PETS)
    assert done.status_code == 200
    assert (
        done.json() | {"source": "pets", "operations": 2, "tools": 2, "added": 2, "left_out": []}
        == done.json()
    )
    (source,) = agent.get("/api/v1/sources").json()["results"]
    assert (source["slug"], source["title"], source["kind"]) == ("pets", "Pets", "openapi")
    assert upload(agent, PETS, name="renamed.json", source="pets").json()["unchanged"] == 2
    with tenant_context(owner.pk):
        assert bytes(SourceDocument.objects.get().content) == PETS


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"openapi": "9.9"}', b"not: [openapi", b"\xff\xfe\x00", b'{"openapi": "3.0.0", "info": {}}']
)  # fmt: skip
def test_syn_1_a_refused_document_is_a_422_with_the_reason_and_stores_nothing(
    agent: APIClient, owner: Tenant, raw: bytes
) -> None:
    refused = upload(agent, raw)
    if raw == b"":
        assert_problem(refused, 400, "validation_error")
    else:
        problem = assert_problem(refused, 422, "invalid_source_document")
        assert problem["detail"].startswith("pets.json")
    with tenant_context(owner.pk):
        assert not Source.objects.exists()
        assert not Tool.objects.exists()


def test_api_1_what_is_no_import_is_refused_before_anything_is_read(agent: APIClient) -> None:
    assert_problem(agent.post("/api/v1/sources", {"source": "pets"}), 400, "validation_error")
    assert_problem(agent.post("/api/v1/sources", {"document": "text"}), 400, "validation_error")
    assert_problem(
        agent.post("/api/v1/sources", {"url": "http://127.0.0.1/"}, format="json"), 502, "upstream_error"
    )
    assert_problem(upload(agent, PETS, dry_run="perhaps"), 400, "validation_error")
    assert_problem(upload(agent, PETS, dryrun="true"), 400, "validation_error")
    assert_problem(upload(agent, PETS, source="Not A Slug"), 400, "validation_error")
    assert agent.get("/api/v1/sources").json()["results"] == []


def test_syn_5_an_edit_by_api_of_an_imported_tool_is_an_override_of_its_key(
    agent: APIClient, owner: Tenant
) -> None:
    upload(agent, PETS)
    changed = patch(agent, "addPet?namespace=pets", {"description": "Takes a pet in."})
    assert changed.json()["description_source"] == "manual"
    with tenant_context(owner.pk):
        override = ManualOverride.objects.get()
        assert (override.field, override.value, override.imported_value) == (
            "description",
            "Takes a pet in.",
            "Adds a pet.",
        )
        assert override.made_by.startswith("API key ")


def test_a_tool_that_another_write_holds_is_a_409_that_says_so(
    committed: Tenant, admin_database: Any, settings: Any
) -> None:
    with tenant_context(committed.pk):
        tool = create_tool(actor="test", tool_id="send_mail", name="send_mail", description="Sends.")
    client = make_api(committed)
    with admin_database.transaction():
        admin_database.execute("SELECT 1 FROM tools_tool WHERE id = %s FOR UPDATE", [tool.pk])
        assert_problem(patch(client, tool.pk, {"description": "New."}), 409, "busy")
    assert patch(client, tool.pk, {"description": "New."}).status_code == 200


def test_the_api_recognises_what_it_is_given_and_can_be_told_SYN_1_SYN_2(agent: APIClient) -> None:
    lamps = json.dumps([{"name": "lamp_on"}, {"name": "lamp_off"}]).encode()

    assert upload(agent, lamps).json()["added"] == 2
    refused = upload(agent, lamps, kind="openapi")
    assert refused.status_code == 422
    assert "not an OpenAPI document" in refused.json()["detail"]
    assert upload(agent, lamps, kind="manual").status_code == 400
    assert agent.get("/api/v1/sources").json()["results"][0]["kind"] == "mcp"
