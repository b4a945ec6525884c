"""The floor of a search: a bare Django view that embeds the question and runs the bare candidate statement, nothing else.

No authentication, no middleware, no framework above Django, one connection that stays open, and only ids in the answer.
Served by gunicorn like the product; what the product takes more is what its manners cost.
"""

from __future__ import annotations

import gc
import json
import os

import psycopg
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from embeddings.providers.sentence_transformers import SentenceTransformers

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="floor",  # noqa: S106 - signs nothing
    MIDDLEWARE=[],
    LOGGING_CONFIG=None,
)

_provider = SentenceTransformers(threads=1)
_connections: list[psycopg.Connection] = []

STATEMENT = "SELECT id, score FROM search_candidates('tool', query_vector => %s::vector, query_text => %s, max_results => 40)"


def _connection() -> psycopg.Connection:
    if not _connections:
        _connections.append(psycopg.connect(os.environ["DATABASE_URL"], autocommit=True))
        _provider.embed(["warm-up"], "query")
        gc.collect()
        gc.freeze()
    return _connections[0]


def view(request: HttpRequest) -> JsonResponse:
    asked = json.loads(request.body)
    connection = _connection()
    vector = "[" + ",".join(map(str, _provider.embed([asked["query"]], "query")[0])) + "]"
    with connection.transaction():
        connection.execute("SELECT set_config('portal.tenant', %s, true)", [asked["tenant"]])
        rows = connection.execute(STATEMENT, [vector, asked["query"]]).fetchall()
    return JsonResponse({"results": [[str(pk), score] for pk, score in rows[: asked["top_k"]]]})


def alive(request: HttpRequest) -> JsonResponse:
    return JsonResponse({})


urlpatterns = [path("search", view), path("livez", alive)]
application = get_wsgi_application()
