"""Where the OpenAPI document is served: as it is, and as Swagger UI."""

from __future__ import annotations

import functools
import hashlib
import json

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.views import SpectacularSwaggerSplitView


@functools.cache
def _document() -> tuple[bytes, bytes, str]:
    """As JSON, as YAML, and the ETag. Made once per process: it is public, and half a second's work."""
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    as_json = json.dumps(document, ensure_ascii=False, default=str).encode()
    as_yaml = OpenApiYamlRenderer().render(document, renderer_context={})  # type: ignore[no-untyped-call]
    return as_json, as_yaml, hashlib.sha256(as_yaml).hexdigest()[:32]


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """The document as JSON, or as YAML (`?format=yaml`, or by Accept). Needs no key: it holds no data."""
    as_json, as_yaml, digest = _document()
    wants_yaml = request.GET.get("format") == "yaml" or "yaml" in request.headers.get("Accept", "")
    kind, content = ("yaml", as_yaml) if wants_yaml else ("json", as_json)
    etag = f'"{digest}-{kind}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Vary": "Accept"}
    if etag in request.headers.get("If-None-Match", ""):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(content, content_type=f"application/vnd.oai.openapi+{kind}", headers=headers)


class DocsPage(SpectacularSwaggerSplitView):
    """Swagger UI from our own static files; its script is a request of its own, as the policy allows none inline."""

    url = "/api/v1/schema"
    throttle_classes = ()


docs_page = DocsPage.as_view()
