"""The way of an import from bytes to catalogue in one go, for every entry point: page, API and command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import urlsplit
from uuid import UUID

from portal.tenancy.context import tenant_context
from tools.catalogue.errors import CatalogueError
from tools.imports.fetching import sandbox
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.plan import ImportReport
from tools.imports.syncing.store import Origin
from tools.models import McpServer, SourceKind

SLUG_LENGTH = 100


def slug_of(name: str) -> str:
    """The slug of a file name (its stem) or URL (host and path): never the document's title, which may change."""
    if "://" in name:
        url = urlsplit(name)
        text = f"{url.hostname or ''}{url.path}"
        text = re.sub(r"\.(json|ya?ml)$", "", text, flags=re.IGNORECASE)
    else:
        text = PurePosixPath(name.replace("\\", "/")).stem
    slug = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")
    return slug[:SLUG_LENGTH].rstrip("-._") or "source"


def import_document(
    *,
    tenant_id: UUID,
    raw: bytes,
    name: str,
    actor: str,
    slug: str = "",
    kind: str = "",
    server: McpServer | None = None,
    dry_run: bool = False,
    confirm_removals: bool = False,
    warnings: Sequence[str] = (),
) -> ImportReport:
    """Imports a document of `kind` (openapi, mcp, lightapi), or of the kind that it shows itself to be. `name` is its file
    name or URL, `server` the MCP server that gave it; `warnings` are those of its way here.

    Raises DocumentRefused or CatalogueError, among them RemovalsNeedConfirmation, and then nothing is stored.
    """
    document = syncs.parsed(kind or sandbox.ANY, raw, name, warnings)
    origin = Origin(
        slug=slug or slug_of(name),
        kind=SourceKind(document.kind),
        name=name,
        raw=raw,
        url=name if "://" in name else "",
        server=server,
    )
    with tenant_context(tenant_id):
        return syncs.apply_document(
            document, origin, actor=actor, dry_run=dry_run, confirm_removals=confirm_removals
        )


def import_tools(
    *,
    tenant_id: UUID,
    raw: bytes,
    name: str,
    actor: str,
    slug: str = "",
    namespace: str = "public",
    dry_run: bool = False,
) -> ImportReport:
    """Imports a file of tools that somebody wrote, JSON Lines or YAML, into `namespace`; adds and changes, and removes nothing. Raises
    DocumentRefused or CatalogueError, and then nothing is stored."""
    document = syncs.parsed(sandbox.TOOLS, raw, name)
    origin = Origin(
        slug=slug or slug_of(name),
        kind=SourceKind.MANUAL,
        name=name,
        raw=raw,
        namespace=namespace,
        whole=False,
    )
    with tenant_context(tenant_id):
        return syncs.apply_document(document, origin, actor=actor, dry_run=dry_run)


__all__ = ["CatalogueError", "DocumentRefused", "import_document", "import_tools", "slug_of"]
