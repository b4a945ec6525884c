"""A plan to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from portal.tenancy.models import Tenant
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.models import Sync


@pytest.fixture
def plan(tenant: Tenant) -> Callable[..., Sync]:
    """Makes a plan of a document for the source `shop`."""

    def make(content: dict[str, Any]) -> Sync:
        return syncs.plan_document(
            IncomingDocument(raw=json.dumps(content).encode(), name="shop.json", slug="shop"),
            tenant_id=tenant.pk,
            actor="ann",
        )

    return make
