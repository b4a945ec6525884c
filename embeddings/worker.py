"""Turns due tasks into vectors: claim, read the texts again, embed without a transaction, store if still wanted.

One function, `drain`, with two doors: the Celery worker of queue `embeddings` (tasks.py, portal/celery.py) and
`manage.py embed_worker`. Killing it at any instant loses nothing: what it had claimed is due again after the lease.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from embeddings import queue, registry
from embeddings.providers import EmbeddingProvider, ProviderError, Vectors, get_provider
from embeddings.providers.validation import checked
from embeddings.queue import Embedded, Task, Wish
from embeddings.registry import EmbeddedEntity
from embeddings.text import source_hash
from portal.tenancy.context import tenant_context

log = logging.getLogger(__name__)


class Circuit:
    """Open after trouble of the provider as a whole: no call until the pause is over, so an outage costs no attempts."""

    def __init__(self) -> None:
        self._closed_at = 0.0

    def open(self, seconds: float) -> None:
        self._closed_at = time.monotonic() + seconds

    def seconds_left(self) -> float:
        return max(0.0, self._closed_at - time.monotonic())


circuit = Circuit()
_draining = threading.Lock()


@dataclass(slots=True)
class Drained:
    """What one drain did. `stored` may be less than `embedded`: results that nobody wanted any more."""

    claimed: int = 0
    embedded: int = 0
    stored: int = 0
    failed: int = 0


def drain(*, stop: threading.Event | None = None, batches: int | None = None) -> Drained:
    """Works until no task is due, `stop` is set, the provider is in trouble, or `batches` are done.

    In one process one drain runs at a time; a second call returns at once, as the first finds its work too.
    """
    done = Drained()
    provider = get_provider()
    if provider is None or not _draining.acquire(blocking=False):
        return done
    try:
        while not (stop and stop.is_set()) and circuit.seconds_left() == 0 and batches != 0:
            tasks = queue.claim(settings.EMBEDDING_BATCH_SIZE)
            if not tasks:
                break
            batches = None if batches is None else batches - 1
            done.claimed += len(tasks)
            for entity, own in _by_tenant_and_entity(tasks):
                with_texts = _current_texts(entity, own)
                if with_texts:
                    _embed_and_store(provider, entity, with_texts, done)
    finally:
        _draining.release()
    return done


def _by_tenant_and_entity(tasks: Sequence[Task]) -> Iterator[tuple[EmbeddedEntity, list[Task]]]:
    groups: dict[tuple[object, str], list[Task]] = defaultdict(list)
    for task in tasks:
        groups[task.tenant_id, task.entity_type].append(task)
    for (_, entity_type), own in groups.items():
        yield registry.get(entity_type), own


def _current_texts(entity: EmbeddedEntity, tasks: list[Task]) -> list[tuple[Task, str]]:
    """The texts that the tasks of one tenant ask for, read now. Tasks whose entity is gone or inactive are dropped."""
    with tenant_context(tasks[0].tenant_id):
        texts = entity.load_texts([task.entity_id for task in tasks])
        current: list[tuple[Task, str]] = []
        gone: list[Task] = []
        moved: list[Wish] = []
        for task in tasks:
            text = texts.get(task.entity_id)
            if text is None:
                gone.append(task)
            elif source_hash(text) == task.source_hash:
                current.append((task, text))
            else:
                # The row was changed without asking, or between claim and now: the newer text is what is wanted.
                moved.append(Wish(task.entity_id, text))
        queue.drop(gone)
        queue.want(entity, moved)
    return current


def _embed_and_store(
    provider: EmbeddingProvider, entity: EmbeddedEntity, work: list[tuple[Task, str]], done: Drained
) -> None:
    """Embeds the texts of one tenant; a batch that fails is halved until the text that is to blame stands alone."""
    tasks = [task for task, _ in work]
    try:
        vectors = _embed(provider, [text for _, text in work])
    except ProviderError as error:
        if error.provider_wide:
            pause = error.retry_after or settings.EMBEDDING_CIRCUIT_SECONDS
            circuit.open(pause)
            log.warning("The embedding provider is in trouble (%s); trying again in %.0f s.", error, pause)
            with tenant_context(tasks[0].tenant_id):
                queue.release(tasks, error=str(error), delay=pause)
        elif len(work) > 1:
            middle = len(work) // 2
            _embed_and_store(provider, entity, work[:middle], done)
            _embed_and_store(provider, entity, work[middle:], done)
        else:
            _fail_or_retry(entity, tasks[0], error, done)
        return
    done.embedded += len(work)
    results = [
        Embedded(task, vector, provider.truncates(text))
        for (task, text), vector in zip(work, vectors, strict=True)
    ]
    with tenant_context(tasks[0].tenant_id):
        done.stored += queue.store(entity, results)


def _embed(provider: EmbeddingProvider, texts: list[str]) -> Vectors:
    try:
        vectors = provider.embed(texts, "passage")
    except ProviderError:
        raise
    except Exception as error:
        # A provider that raises what it did not announce must not stop the loop for everyone else.
        log.exception("The embedding provider raised an unexpected error.")
        raise ProviderError(f"unexpected error of the provider: {type(error).__name__}: {error}") from error
    return checked(vectors, len(texts), settings.EMBEDDING_DIMENSION)


def _fail_or_retry(entity: EmbeddedEntity, task: Task, error: ProviderError, done: Drained) -> None:
    with tenant_context(task.tenant_id):
        if error.permanent or task.attempts >= settings.EMBEDDING_MAX_ATTEMPTS:
            done.failed += 1
            queue.fail(entity, task, error=str(error))
        else:
            queue.retry_later(task, error=str(error), delay=error.retry_after or retry_delay(task.attempts))


def retry_delay(attempts: int) -> float:
    """Seconds before the next attempt: doubling from EMBEDDING_RETRY_BASE up to EMBEDDING_RETRY_MAX, with full jitter
    in the upper half, so that rows that failed together do not come back together."""
    ceiling = min(settings.EMBEDDING_RETRY_BASE * 2.0 ** (attempts - 1), settings.EMBEDDING_RETRY_MAX)
    return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def serve(stop: threading.Event) -> None:
    """Drains for ever without the broker's help, until `stop` is set: errors are logged, and the loop goes on."""
    while not stop.is_set():
        try:
            drain(stop=stop)
        except Exception:  # a database that restarts must not end the worker
            log.exception("Draining embedding tasks failed; going on.")
        finally:
            connection.close()  # back to the pool, which replaces it if the database went away
        stop.wait(settings.EMBEDDING_POLL)
