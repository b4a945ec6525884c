"""The way of an import from bytes to catalogue, for every door: page, API and command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import urlsplit
from uuid import UUID

from django.core.exceptions import ValidationError

from portal.tenancy.context import tenant_context
from tools.errors import CatalogueError, Invalid
from tools.imports import sandbox
from tools.imports.apply import ImportReport, Origin, apply_document
from tools.imports.specs import DocumentRefused, ParsedDocument
from tools.models import SourceKind, Tool

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
    dry_run: bool = False,
    warnings: Sequence[str] = (),
) -> ImportReport:
    """Imports a document of `kind` (openapi, mcp, lightapi), or of the kind that it shows itself to be. `name` is its file
    name or URL; `warnings` are those of its way here. Raises DocumentRefused or CatalogueError, and then nothing is stored. The document is parsed before the
    transaction opens."""
    document = sandbox.parse(kind or sandbox.ANY, raw, name=PurePosixPath(name).name or name)
    document = replace(document, warnings=(*warnings, *document.warnings))
    origin = Origin(
        slug=slug or slug_of(name),
        kind=SourceKind(document.kind),
        name=name,
        raw=raw,
        url=name if "://" in name else "",
    )
    return _apply(tenant_id, document, origin, actor=actor, dry_run=dry_run)


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
    """Imports a file of tools, one JSON object a line, into `namespace`; adds and changes, and removes nothing. Raises
    DocumentRefused or CatalogueError, and then nothing is stored."""
    document = sandbox.parse(sandbox.TOOLS, raw, name=PurePosixPath(name).name)
    origin = Origin(
        slug=slug or slug_of(name),
        kind=SourceKind.MANUAL,
        name=name,
        raw=raw,
        namespace=namespace,
        whole=False,
    )
    return _apply(tenant_id, document, origin, actor=actor, dry_run=dry_run)


def _apply(
    tenant_id: UUID, document: ParsedDocument, origin: Origin, *, actor: str, dry_run: bool
) -> ImportReport:
    try:
        with tenant_context(tenant_id):
            Tool(namespace=origin.namespace or origin.slug).clean_fields(exclude=_ALL_BUT_NAMESPACE)
            return apply_document(document, origin, actor=actor, dry_run=dry_run)
    except ValidationError as error:
        raise Invalid(error.message_dict) from error


_ALL_BUT_NAMESPACE = {field.name for field in Tool._meta.fields} - {"namespace"}
__all__ = ["CatalogueError", "DocumentRefused", "import_document", "import_tools", "slug_of"]
