"""What tests of pages and of the admin share: a small OpenAPI document, and the hidden `seen` field of forms."""

from __future__ import annotations

import re

from django.test import Client

from tests.support.imports.limits import parse_document
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.service import import_parsed

SHOP_DOCUMENT = """
openapi: 3.0.0
info: {title: Shop, version: "1"}
paths:
  /orders:
    get:
      operationId: listOrders
      summary: %s
      tags: [orders]
      parameters:
        - {name: status, in: query, required: true, description: Which orders, schema: {type: string, enum: [open, paid]}}
      responses: {"200": {description: ok}}
"""


def import_shop(summary: str) -> None:
    raw = (SHOP_DOCUMENT % summary).encode()
    incoming = IncomingDocument(raw, "shop.yaml", "shop")
    import_parsed(parse_document(raw, name="shop.yaml"), incoming, actor="importer")


def seen(client: Client, path: str) -> dict[str, str]:
    """The hidden field of the form that this page holds now."""
    return {"seen": seen_of(client.get(path).content.decode())}


def seen_of(html: str) -> str:
    """The value of the hidden field `seen` of a form or a question."""
    found = re.search(r'name="seen" value="(\w+)"', html)
    assert found
    return found[1]
