"""Names the author of what is written, and the request that it was written in, in the events of tracked models (CAT-8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pghistory

from portal.http.request_ids import current_request_id


@contextmanager
def history_context(actor: str, **more: str) -> Iterator[None]:
    """Puts `actor`, the id of the current request if there is one, and `more` into the context of every event of the block."""
    number = current_request_id()
    with pghistory.context(actor=actor, **({"request": number} if number else {}), **more):
        yield
