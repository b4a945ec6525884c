"""The HTTP client of the embedding providers: one bounded POST, and whether the text or the server caused its failure
(RELIABILITY rule 15). The paths and bodies of requests are in `openai_compatible.py` and `local_http.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit, urlunsplit

import httpcore
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from embeddings.providers.base import Kind, ProviderError
from portal.json_types import JsonValue
from portal.outbound.http import CONNECT_SECONDS, BodyTooLarge, DeadlineBackend, open_response, read_body

MAX_REPLY = 8_000_000
"""Bytes. 512 vectors of 384 numbers take 4 MB."""
MAX_PAUSE = 3600.0
"""Seconds. A Retry-After of days, from a server with a wrong clock, would stop the queue."""
MAX_MESSAGE = 200

PERMANENT = frozenset({400, 404, 413, 422})
"""The server refuses the request and would refuse it again: the text is too long, the batch too large, or the model missing. The
worker halves the batch, and parks a text that is refused alone (RELIABILITY R5)."""
UNCERTAIN = frozenset({408, 424, 500, 502, 504})
"""A text may cause these (424 is a failed run of the model), and so may an outage: the worker's probe tells which. Every other
status is of the provider as a whole: it is busy (429, 503), or the key is wrong (401, 403)."""
BUSY = frozenset({429, 503})
"""Temporary errors of the provider."""
SECRET = frozenset({401, 403})
"""The body of these may repeat parts of a key, so it is not shown."""


@dataclass(frozen=True, slots=True)
class Server:
    """An embedding server. `timeout` bounds a whole call, in seconds; only the resolver of names has its own time.

    Raises ImproperlyConfigured without an address; the settings check its form.
    """

    url: str
    timeout: float
    api_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.url:
            raise ImproperlyConfigured("An embedding server needs EMBEDDING_URL, its address.")

    @property
    def name(self) -> str:
        """The host and port, which messages name the server by."""
        return urlsplit(self.url).netloc

    def post(self, path: str, body: Mapping[str, object], kind: Kind = "passage") -> JsonValue:
        """Sends the body as JSON and returns the parsed reply. Follows no redirect, uses no proxy. Raises ProviderError."""
        # A search waits for the vector, and can do without one.
        timeout = min(self.timeout, settings.EMBEDDING_QUERY_TIMEOUT) if kind == "query" else self.timeout
        deadline = time.monotonic() + timeout
        parts = urlsplit(self.url)
        url = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, parts.query, ""))
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        try:
            with open_response(
                "POST",
                url,
                backend=DeadlineBackend(deadline),
                headers=headers,
                content=json.dumps(body).encode(),
                read_seconds=timeout,
                connect_seconds=min(CONNECT_SECONDS, timeout),
            ) as response:
                content = read_body(response, MAX_REPLY)
                status = response.status
                answered = {
                    key.decode("latin-1").lower(): value.decode("latin-1") for key, value in response.headers
                }
        except BodyTooLarge as error:
            raise ProviderError(f"{self.name} sent more than {MAX_REPLY // 1_000_000} MB.") from error
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise ProviderError(f"{self.name} cannot be reached: {error}", provider_wide=True) from error
        except httpcore.TimeoutException as error:
            raise ProviderError(f"{self.name} did not answer within {timeout:g} s.") from error
        except httpcore.UnsupportedProtocol as error:
            raise ProviderError(f"{self.name}: {error}", provider_wide=True) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise ProviderError(f"{self.name} broke off its answer.") from error
        if status != 200:
            raise self._refusal(status, answered, content)
        try:
            reply: JsonValue = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ProviderError(f"{self.name} answered with something that is no JSON.") from error
        return reply

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes) -> ProviderError:
        message = "" if status in SECRET else self.error_message(content)
        return ProviderError(
            f"{self.name} answered {status}{message and ': '}{message}",
            permanent=status in PERMANENT,
            provider_wide=status not in PERMANENT | UNCERTAIN,
            lasting=status not in PERMANENT | UNCERTAIN | BUSY,
            retry_after=_pause(headers),
        )

    def error_message(self, content: object) -> str:
        """The message in a server's error document, or "": on one line, short, and without the key."""
        try:
            found: object = json.loads(content) if isinstance(content, bytes) else content
        except (ValueError, RecursionError):
            return ""
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and name in found:
                found = found[name]
        if not isinstance(found, str):
            return ""
        if self.api_key:
            found = found.replace(self.api_key, "…")
        return " ".join(found.split())[:MAX_MESSAGE]

    def without_vectors(self, reply: object) -> ProviderError:
        """The error of a reply that holds no list of vectors."""
        message = self.error_message(reply)
        return ProviderError(f"{self.name} sent no list of vectors{message and ': '}{message}")


class HttpProvider:
    """Base of the providers behind a server. The prefixes are for models that want passages and queries marked (`passage: `,
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
        self._server = Server(url, timeout, api_key)
        self._prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}

    def truncates(self, text: str) -> bool:
        """Only the server could know: False."""
        return False


def _pause(headers: Mapping[str, str]) -> float | None:
    """The seconds of a Retry-After (a number or a date), within bounds; None if there is none that can be read."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            until = parsedate_to_datetime(text)
            # By the server's own clock if it sends the time, because ours may be wrong.
            now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
            seconds = (until - now).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return None
    return min(max(seconds, 1.0), MAX_PAUSE)
