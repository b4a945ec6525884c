"""Answers that are remembered (SRC-6): in this process, and in CACHE_URL for the others.

An answer is kept under all that it depends on: the audience, the question with its options, the model that serves, the settings and the code
of search. With it stands the version of the catalogue that it was found in; it counts only as long as the tenant still has
that version, which is read anew for every search, and not beyond the end of the next quarantine. So no edit, quarantine, switch
or change of rights is ever answered from before.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

from embeddings.slots import Slot
from metrics.statistics import seconds_until_release
from portal.tenancy.catalogue_version import catalogue_version
from portal.tenancy.context import tenant_context
from portal.tenancy.rights import Rights
from tools.search import shared_cache
from tools.search.query import SearchAnswer, SearchQuery

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of the catalogue that an answer is found in: its version, and the time (time.time()) at which it may become another one
    without a commit, since a quarantine ends."""

    version: int
    until: float


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer, and the moment that it is of."""

    answer: SearchAnswer
    moment: Moment


_of_process: OrderedDict[str, Kept] = OrderedDict()


def key_of(rights: Rights, slot: Slot, query: SearchQuery) -> str:
    """The key of an answer; "" where none is remembered."""
    if not settings.SEARCH_RESULT_CACHE:
        return ""
    return shared_cache.key_of(
        rights.audience, "search", [_ranking(), slot.number, slot.model, asdict(query)]
    )


def find(rights: Rights, key: str) -> SearchAnswer | None:
    """The answer that is remembered under the key and is still true."""
    if not key:
        return None
    kept = _of_process.get(key)
    if kept is None:
        found = shared_cache.remembered(key)
        kept = found if isinstance(found, Kept) else None
    if kept is None or kept.moment.until <= time.time():
        return None
    with tenant_context(rights.tenant_id):
        version = catalogue_version()
    if kept.moment.version != version:
        _of_process.pop(key, None)
        return None
    _keep(key, kept)
    return kept.answer


def moment(rights: Rights, key: str) -> Moment | None:
    """The present one, to be read before anything else that the answer is made of; None where it will not be remembered."""
    if not key:
        return None
    with tenant_context(rights.tenant_id):
        version, seconds = catalogue_version(), seconds_until_release()
    most = settings.SEARCH_RESULT_CACHE_SECONDS
    return Moment(version, time.time() + (most if seconds is None else min(seconds, most)))


def store(key: str, answer: SearchAnswer, found_in: Moment | None) -> None:
    """Remembers an answer. One that lacks something, as with a provider that is down or a model that was late, is not remembered."""
    if found_in is None or answer.degraded or answer.reranking.outcome in ("too_late", "busy", "failed"):
        return
    seconds = found_in.until - time.time()
    if seconds >= 1:
        kept = Kept(answer, found_in)
        _keep(key, kept)
        shared_cache.remember(key, kept, seconds=int(seconds))


def clear() -> None:
    """Forgets what this process remembers."""
    _of_process.clear()


def _keep(key: str, kept: Kept) -> None:
    _of_process[key] = kept
    _of_process.move_to_end(key)
    while len(_of_process) > settings.SEARCH_RESULT_CACHE:
        _of_process.popitem(last=False)


@cache
def _ranking() -> str:
    """A digest of the code and the settings that make the order, which another release or another configuration changes."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.sql"))):
        digest.update(path.read_bytes())
    for name in sorted(dir(settings)):
        if name.startswith(("SEARCH_", "EMBEDDING_")) and not name.endswith("KEY"):
            digest.update(f"{name}={getattr(settings, name)!r}".encode())
    return digest.hexdigest()[:16]
