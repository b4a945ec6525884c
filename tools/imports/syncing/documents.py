"""Documents on their way in: read from a URL, a server or a source, and parsed in a child process. No transaction is open."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from django.conf import settings

from portal.outbound.errors import FetchError
from tools.catalogue.visibility import require_all_sensitivities
from tools.imports.fetching import sandbox
from tools.imports.fetching.http import fetch_document
from tools.imports.fetching.mcp.client import list_tools, list_tools_from_url
from tools.imports.formats.specs import ParsedDocument
from tools.models import McpServer, Source, SourceKind

SLUG_LENGTH = 100
PUBLIC = "public"
REQUEST_SECONDS = 45.0
"""For fetching a document within a request and parsing it: comparing and storing need the rest of the minute after which the web's
worker is killed (portal/gunicorn.py). An MCP server has MCP_SECONDS besides, wherever it is asked, so that a test and a sync
find the same."""
READ_SECONDS = 30.0
"""Of these, for fetching at most."""
NOT_READABLE = "The source has no address to be read from: import its document, or give it a URL."


class RequestDeadline:
    """The end of the time that one request has for a document, from now on: each step gets what those before it have left."""

    def __init__(self, *, asks_server: bool = False) -> None:
        self._at = time.monotonic() + REQUEST_SECONDS + (settings.MCP_SECONDS if asks_server else 0)

    def left(self, at_most: float = REQUEST_SECONDS) -> float:
        return max(0.01, min(at_most, self._at - time.monotonic()))


@dataclass(slots=True)
class IncomingDocument:
    """A document as it came, with what is known of it before it is parsed."""

    raw: bytes
    name: str  # of the file; the URL, or the slug of the server that it was read from
    slug: str = ""  # of the source; without one it is made from the name
    kind: str = ""  # openapi, mcp, lightapi or sandbox.TOOLS; without one it is recognised by its content
    # Where the source is read from now on; both empty: where it was.
    url: str = ""
    server: McpServer | None = None
    warnings: Sequence[str] = ()  # of the reading
    namespace: str = ""  # of the tools; without one it is the slug
    is_whole: bool = True  # what the document no longer has is removed; a file of tools only adds and changes

    def __post_init__(self) -> None:
        self.slug = self.slug or slug_of(self.name)
        self.namespace = self.namespace or self.slug


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


def tool_file(raw: bytes, name: str, *, slug: str = "", namespace: str = PUBLIC) -> IncomingDocument:
    """A hand-written file of tools, in JSON Lines or YAML. Its import adds and changes tools and removes none."""
    return IncomingDocument(raw, name, slug, sandbox.TOOLS, namespace=namespace, is_whole=False)


def read_url(url: str, *, kind: str = "", slug: str = "", seconds: float | None = None) -> IncomingDocument:
    """The document at a URL, in at most `seconds`. Raises FetchError."""
    return IncomingDocument(fetch_document(url, seconds=seconds), url, slug, kind, url=url)


def read_mcp_url(url: str, *, slug: str = "") -> IncomingDocument:
    """The tools of the MCP server at a URL. Raises FetchError."""
    found = list_tools_from_url(url)
    return IncomingDocument(found.raw, url, slug, SourceKind.MCP, url=url, warnings=found.warnings)


def read_server(server: McpServer, *, slug: str = "") -> IncomingDocument:
    """The tools of an MCP server. Raises FetchError."""
    found = list_tools(server)
    return IncomingDocument(
        found.raw, server.slug, slug, SourceKind.MCP, server=server, warnings=found.warnings
    )


def read_source(source: Source, *, seconds: float | None = None) -> IncomingDocument:
    """The document as it is now at the source's address; `seconds` is for a caller that cannot wait for a document as long as a
    job can. Raises FetchError; and BeyondRights where an import names an MCP server, before that is asked (service.py, `_load`)."""
    if source.server is not None:
        if source.is_new:
            require_all_sensitivities()
        return read_server(source.server, slug=source.slug)
    if not source.url:
        raise FetchError(NOT_READABLE)
    if source.kind == SourceKind.MCP:
        return read_mcp_url(source.url, slug=source.slug)
    return read_url(source.url, kind=source.kind, slug=source.slug, seconds=seconds)


def parse(incoming: IncomingDocument, *, seconds: float | None = None) -> ParsedDocument:
    """The parsed document; the warnings of its reading stand before its own. Raises DocumentRefused."""
    name = PurePosixPath(incoming.name).name or incoming.name
    document = sandbox.parse(incoming.kind or sandbox.ANY, incoming.raw, name=name, seconds=seconds)
    return replace(document, warnings=(*incoming.warnings, *document.warnings))
