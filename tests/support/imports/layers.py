"""Shared by the tests of layers: an OpenAPI document, and LightAPI documents of one operation."""

from __future__ import annotations

import json
from typing import Any

from tests.support.imports.parsing import OK, document, parse_lightapi, parse_openapi
from tools.imports.formats.specs import EndpointSpec, ParsedDocument

PET = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "description": "in years"}},
}
SHOP = document(
    {
        "/pets/{petId}": {
            "get": {
                "operationId": "getPet",
                "summary": "Pet",
                "description": "Extracted words.",
                "tags": ["extracted"],
                "deprecated": True,
                "parameters": [
                    {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}},
                ],
                "responses": {
                    "200": {
                        "description": "ok",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    }
                },
            }
        },
        "/pets": {
            "post": {
                "operationId": "addPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
                "responses": OK,
            }
        },
    },
    components={"schemas": {"Pet": PET}},
    servers=[{"url": "https://shop.example/api/v3"}],
)
BACKED = {"protocol": "http", "source": "shop", "operationId": "getPet"}


def shop() -> dict[str, EndpointSpec]:
    return {spec.key: spec for spec in parse_openapi(SHOP).endpoints}


def described(operation: dict[str, Any], **fields: Any) -> ParsedDocument:
    written = {
        "lightapi": "0.1.0",
        "info": {"title": "A", "namespace": "shop", "version": "1.0.0"},
        "operations": {"op": operation},
    }
    return parse_lightapi(json.dumps(written | fields).encode())
