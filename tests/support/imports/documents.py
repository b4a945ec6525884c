"""Small OpenAPI documents that change from one import to the next, and how tests import them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from portal.tenancy.models import Tenant
from tools.imports.syncing import service
from tools.imports.syncing.changes import ImportReport
from tools.imports.syncing.documents import IncomingDocument

INPUTS = Path(__file__).resolve().parents[4] / "shared" / "inputs"
OPENAPI = INPUTS / "openapi"
needs_inputs = pytest.mark.skipif(not INPUTS.is_dir(), reason="../shared is not here")


def document(*operations: str, title: str = "Shop", **texts: str) -> dict[str, Any]:
    """An API with one `GET /<name>` for each name; `texts` gives descriptions by name."""
    return {
        "openapi": "3.0.0",
        "info": {"title": title, "version": "1"},
        "paths": {
            f"/{name}": {
                "get": {
                    "operationId": name,
                    "description": texts.get(name, f"Does {name} as the shop wants it."),
                    "tags": ["shop"],
                    "responses": {"200": {"description": "ok"}},
                }
            }
            for name in operations
        },
    }


def import_document(
    tenant: Tenant, content: dict[str, Any] | bytes, slug: str = "shop", **options: Any
) -> ImportReport:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return service.import_document(
        IncomingDocument(raw=raw, name=f"{slug}.json", slug=slug),
        tenant_id=tenant.pk,
        actor="importer",
        **options,
    )
