"""An API with parameters, and tools that operators have edited."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.waits import own_transactions
from tools.catalogue import overrides
from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.catalogue.tools import update_tool
from tools.models import ManualOverride, Tool, ToolEmbedding

Json = dict[str, Any]


def pets(parent: str = "Its mother.", **texts: str) -> Json:
    """An API with a query parameter and a body behind references, one of them back to itself."""
    said = {"dry": "Only checks.", "name": "What it is called.", "owner": "Who feeds it.", **texts}
    pet = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": said["name"]},
            "owner": {"$ref": "#/components/schemas/Person", "description": said["owner"]},
            "parent": {"$ref": "#/components/schemas/Pet", "description": parent},
            "age": {"type": "integer"},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "paths": {
            "/pets": {
                "post": {
                    "operationId": "addPet",
                    "description": "Adds a pet.",
                    "parameters": [
                        {
                            "name": "dry",
                            "in": "query",
                            "description": said["dry"],
                            "schema": {"type": "boolean"},
                        }
                    ],
                    "requestBody": {
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}
                    },
                    "responses": {"200": {"description": "ok"}},
                }
            }
        },
        "components": {"schemas": {"Pet": pet, "Person": {"type": "object"}}},
    }


def edit(**changes: Any) -> Tool:
    tool = Tool.objects.get()
    return update_tool(pk=tool.pk, expected_version=tool.version, changes=changes, actor="olga")


def texts() -> dict[str, str]:
    return parameter_descriptions(Tool.objects.get().parameters)


def wanted() -> str:
    return str(ToolEmbedding.objects.get().source_hash)


def recorded() -> dict[str, Any]:
    return dict(ManualOverride.objects.values_list("field", "value"))


def many(tenant: Tenant, count: int, slug: str = "shop", text: str = "Imported.") -> list[Tool]:
    names = [f"op{number:04}" for number in range(count)]
    with own_transactions():  # of tests that call this inside of their tenant's context
        import_document(tenant, document(*names, **dict.fromkeys(names, text)), slug)
    return list(Tool.objects.filter(source__slug=slug).order_by("name"))


def overrule(tools: list[Tool], text: str = "Ours.") -> None:
    for tool in tools:
        version = Tool.objects.get(pk=tool.pk).version
        update_tool(
            pk=tool.pk,
            expected_version=version,
            changes={"description": text, "tags": ["ours"]},
            actor="olga",
        )


def ids(**which: Any) -> list[UUID]:
    return list(ManualOverride.objects.filter(**which).values_list("pk", flat=True))


def reset_override(*, pk: UUID, field: str, actor: str, reset: UUID | None = None) -> Tool:
    overrides.reset_many(overrides=ids(tool=pk, field=field), actor=actor, reset=reset)
    return Tool.objects.select_related("endpoint", "source").get(pk=pk)


def keep_override(*, pk: UUID, field: str, actor: str) -> None:
    overrides.keep_many(overrides=ids(tool=pk, field=field), actor=actor)
