"""Base of the embedding providers behind a server (portal/outbound/json_server.py makes the call). The paths and bodies of requests
are in `openai_compatible.py` and `local_http.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings

from embeddings.providers.base import Kind, ProviderError
from portal.json_types import JsonValue
from portal.outbound.json_server import JsonServer, ServerError


class HttpProvider:
    """`timeout` bounds a whole call, in seconds. The prefixes are for models that want passages and queries marked (`passage: `,
    `query: `). Raises ImproperlyConfigured without an address.
    """

    def __init__(
        self,
        *,
        model: str,
        dimension: int,
        url: str = "",
        api_key: str = "",
        timeout: float = 30,
        query_prefix: str = "",
        passage_prefix: str = "",
        batch_size: int = 32,
        threads: int = 1,
    ) -> None:
        self.model, self.dimension = model, dimension
        self._server = JsonServer(url, "EMBEDDING_URL", api_key)
        self._timeout = timeout
        self._prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}

    def truncates(self, text: str) -> bool:
        """Only the server could know: False."""
        return False

    def _post(self, path: str, body: Mapping[str, object], kind: Kind) -> JsonValue:
        """The parsed reply. Raises ProviderError. After a refusal that is `permanent` the worker halves the batch, and parks a text that
        is refused alone (R5); after an uncertain one, its probe tells whether the text or an outage caused it."""
        # A search waits for the vector, and can do without one.
        seconds = min(self._timeout, settings.EMBEDDING_QUERY_TIMEOUT) if kind == "query" else self._timeout
        try:
            return self._server.post(path, body, seconds=seconds)
        except ServerError as error:
            raise ProviderError(
                str(error),
                permanent=error.permanent,
                provider_wide=error.server_wide,
                lasting=error.lasting,
                retry_after=error.retry_after,
            ) from error

    def _without_vectors(self, reply: object) -> ProviderError:
        """The error of a reply that holds no list of vectors."""
        message = self._server.error_message(reply)
        return ProviderError(f"{self._server.name} sent no list of vectors{message and ': '}{message}")
