"""A server with a JSON interface that the installation's own settings name: one bounded POST, and whether the request or the
server caused its failure (RELIABILITY rule 15). Embedding providers and the models that rank results are called by it.
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
from django.core.exceptions import ImproperlyConfigured

from portal.json_types import JsonValue
from portal.outbound.http import CONNECT_SECONDS, BodyTooLarge, DeadlineBackend, open_response, read_body
from portal.service_error import ServiceError

MAX_REPLY = 8_000_000
"""Bytes. 512 vectors of 384 numbers take 4 MB."""
MAX_PAUSE = 3600.0
"""Seconds. A Retry-After of days, from a server with a wrong clock, would stop the queue."""
MAX_MESSAGE = 200

PERMANENT = frozenset({400, 404, 413, 422})
"""The server refuses the request and would refuse it again: the text is too long, the batch too large, or the model missing."""
UNCERTAIN = frozenset({408, 424, 500, 502, 504})
"""A text may cause these (424 is a failed run of the model), and so may an outage. Every other status is of the server as a whole:
it is busy (429, 503), or the key is wrong (401, 403)."""
BUSY = frozenset({429, 503})
"""Temporary errors of the server."""
SECRET = frozenset({401, 403})
"""The body of these may repeat parts of a key, so it is not shown."""


class ServerError(ServiceError):
    """The server gave no answer that can be used. `server_wide`: it is down or refuses the portal, which no request causes."""

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        server_wide: bool = False,
        lasting: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, permanent=permanent, lasting=lasting, retry_after=retry_after)
        self.server_wide = server_wide


@dataclass(frozen=True, slots=True)
class JsonServer:
    """The server at `url`; `setting` is the name of the setting that holds the address.

    Raises ImproperlyConfigured without an address; the settings check its form.
    """

    url: str
    setting: str
    api_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.url:
            raise ImproperlyConfigured(f"A server that is called needs {self.setting}, its address.")

    @property
    def name(self) -> str:
        """The host and port, which messages name the server by."""
        return urlsplit(self.url).netloc

    def post(self, path: str, body: Mapping[str, object], *, seconds: float) -> JsonValue:
        """Sends the body as JSON and returns the parsed reply within `seconds` for the whole call; only the resolver of names has its
        own time. Follows no redirect, uses no proxy. Raises ServerError."""
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
                backend=DeadlineBackend(time.monotonic() + seconds),
                headers=headers,
                content=json.dumps(body).encode(),
                read_seconds=seconds,
                connect_seconds=min(CONNECT_SECONDS, seconds),
            ) as response:
                content = read_body(response, MAX_REPLY)
                status = response.status
                answered = {
                    key.decode("latin-1").lower(): value.decode("latin-1") for key, value in response.headers
                }
        except BodyTooLarge as error:
            raise ServerError(f"{self.name} sent more than {MAX_REPLY // 1_000_000} MB.") from error
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise ServerError(f"{self.name} cannot be reached: {error}", server_wide=True) from error
        except httpcore.TimeoutException as error:
            raise ServerError(f"{self.name} did not answer within {seconds:g} s.") from error
        except httpcore.UnsupportedProtocol as error:
            raise ServerError(f"{self.name}: {error}", server_wide=True) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise ServerError(f"{self.name} broke off its answer.") from error
        if status != 200:
            raise self._refusal(status, answered, content)
        try:
            reply: JsonValue = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ServerError(f"{self.name} answered with something that is no JSON.") from error
        return reply

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes) -> ServerError:
        message = "" if status in SECRET else self.error_message(content)
        return ServerError(
            f"{self.name} answered {status}{message and ': '}{message}",
            permanent=status in PERMANENT,
            server_wide=status not in PERMANENT | UNCERTAIN,
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
