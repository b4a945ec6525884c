"""The embedding worker: claims due tasks, reads the texts again, embeds them outside a transaction, and stores the vectors.

One function, `drain`, with two entry points: the Celery worker of queue `embeddings` (tasks.py, portal/celery.py) and
`manage.py embed_worker`. Killing it at any instant loses nothing: what it had claimed is due again after the lease.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, connection

from embeddings import registry, slots
from embeddings.providers import EmbeddingProvider, ProviderError, Vectors
from embeddings.providers.base import TokenProvider, checked, checked_tokens
from embeddings.queue import claims
from embeddings.queue.claims import Embedded, QueueWatermarks, Task
from embeddings.queue.counters import count_failed, counters
from embeddings.queue.enqueue import requeue
from embeddings.queue.reconcile import reconcile
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from embeddings.text import source_hash
from embeddings.token_signs import token_signs
from portal.jobs import heartbeats
from portal.jobs.loop import WorkLoop, heartbeat
from portal.resilience import circuit_breaker
from portal.tenancy.context import tenant_context

log = logging.getLogger(__name__)

PROBE = "warm-up"
"""A text that no provider has a reason to refuse."""
REFRESH_SECONDS = 1.0


@dataclass(slots=True)
class Drained:
    """The counts of one drain. `stored` may be less than `embedded`: results whose text has changed meanwhile."""

    claimed: int = 0
    embedded: int = 0
    stored: int = 0
    failed: int = 0


@dataclass(slots=True)
class _Run:
    """One drain while it runs."""

    stop: threading.Event
    claimed: list[Task]
    done: Drained = field(default_factory=Drained)
    usable: list[Slot] = field(default_factory=list)
    failing: frozenset[str] = frozenset()  # models whose circuit counts errors, which a success closes
    in_trouble: set[str] = field(default_factory=set)  # models whose provider failed during this batch
    refresh_at: float = 0.0

    def is_over_for(self, slot: Slot) -> bool:
        return self.stop.is_set() or slot.model in self.in_trouble

    def refresh(self) -> None:
        """Reads once a second which models have slots, which of them this process can load, and their circuits. Makes the trial
        call where one is due, with a text of no tenant."""
        if time.monotonic() < self.refresh_at:
            return
        self.refresh_at = time.monotonic() + REFRESH_SECONDS
        waits = circuit_breaker.seconds_until_trial("passage")
        self.failing, self.usable = frozenset(waits), []
        for slot in slots.all():
            try:
                provider = slot.embedder()
            except ProviderError as error:
                # For example a model of another runtime: other processes may have it.
                log.warning("This worker cannot load %s and leaves it to others: %s", slot.model, error)
                continue
            self.usable.append(slot)
            wait = waits.get(slot.model)
            if (
                provider is not None
                and wait is not None
                and wait <= 0
                and circuit_breaker.acquire_trial(slot.model, "passage")
            ):
                _make_trial(slot, provider)


def _make_trial(slot: Slot, provider: EmbeddingProvider) -> None:
    try:
        _embed(provider, [PROBE])
    except ProviderError as error:
        circuit_breaker.record_failure(slot.model, "passage", error)
        log.warning(
            "The embedding provider of %s is still in trouble (incident %s): %s",
            slot.model,
            error.incident,
            error,
        )
    else:
        circuit_breaker.record_success(slot.model, "passage")


def drain(
    *,
    stop: threading.Event | None = None,
    batches: int | None = None,
    claimed: list[Task] | None = None,
    watermarks: QueueWatermarks | None = None,
) -> Drained:
    """Works until no task is due, `stop` is set, all circuits are open, or `batches` are done.

    Once `stop` is set, the current call of the provider is the last one: its vectors are stored, all other claims released.
    `claimed` always holds the tasks of the current batch, for a caller in another thread; `watermarks` are those of a caller
    that drains repeatedly.
    """
    if settings.EMBEDDING_PROVIDER == "disabled":
        return Drained()
    run = _Run(stop or threading.Event(), [] if claimed is None else claimed)
    while not run.stop.is_set() and batches != 0:
        run.refresh()
        run.in_trouble.clear()
        run.claimed[:] = tasks = claims.claim(
            settings.EMBEDDING_BATCH_SIZE, of=run.usable, watermarks=watermarks
        )
        if not tasks:
            break
        batches = None if batches is None else batches - 1
        run.done.claimed += len(tasks)
        with heartbeat(
            partial(claims.extend, tasks),
            seconds=settings.EMBEDDING_LEASE / 3,
            name="embedding-heartbeat",
            trouble=f"The lease of {len(tasks)} embedding tasks could not be renewed",
        ):
            for entity, own in _grouped(tasks):
                try:
                    _work(run, entity, own)
                except OperationalError as error:
                    if not connection.is_usable():
                        raise
                    # A write held the rows for longer than our lock_timeout: the tasks are due again when their lease ends.
                    log.warning("%d embedding tasks must wait: %s", len(own), error)
        counters.write()
    counters.write(now=run.done.claimed > 0)
    return run.done


def _work(run: _Run, entity: EmbeddedEntity, tasks: list[Task]) -> None:
    """Stores, drops, releases or parks the tasks of one tenant, entity type and slot."""
    if run.is_over_for(tasks[0].slot):
        claims.release(tasks)
        return
    for task in tasks:
        if task.attempts > settings.EMBEDDING_MAX_ATTEMPTS:
            # A failed attempt is parked below at the latest, so each of these must have ended with its worker.
            _fail(
                run,
                entity,
                task,
                f"The worker ended during each of {settings.EMBEDDING_MAX_ATTEMPTS} attempts.",
                cause="worker_ended",
            )
    with_texts = _current_texts(
        entity, [task for task in tasks if task.attempts <= settings.EMBEDDING_MAX_ATTEMPTS]
    )
    if with_texts:
        _embed_and_store(run, entity, with_texts)


def _grouped(tasks: Sequence[Task]) -> Iterator[tuple[EmbeddedEntity, list[Task]]]:
    """The tasks by tenant, entity type and slot."""
    groups: dict[tuple[object, str, int], list[Task]] = defaultdict(list)
    for task in tasks:
        groups[task.tenant_id, task.entity_type, task.slot.number].append(task)
    for (_, entity_type, _), own in groups.items():
        yield registry.get(entity_type), own


def _current_texts(entity: EmbeddedEntity, tasks: list[Task]) -> list[tuple[Task, str]]:
    """The tasks of one tenant with their texts as they are now. Tasks whose entity is gone or inactive are dropped."""
    if not tasks:
        return []
    with tenant_context(tasks[0].tenant_id):
        texts = entity.load_texts([task.entity_id for task in tasks])
    current: list[tuple[Task, str]] = []
    moved: list[UUID] = []
    for task in tasks:
        text = texts.get(task.entity_id)
        if text is not None and source_hash(text) == task.source_hash:
            current.append((task, text))
        elif text is not None:
            moved.append(task.entity_id)
    claims.drop([task for task in tasks if task.entity_id not in texts])
    if moved:
        # The text changed after the claim, and is enqueued already; or a write forgot to enqueue it.
        with tenant_context(tasks[0].tenant_id):
            requeue(entity, moved, refresh=False, only=tasks[0].slot)
    return current


def _embed_and_store(run: _Run, entity: EmbeddedEntity, work: list[tuple[Task, str]]) -> None:
    """Embeds the texts of one tenant; a batch that fails is halved until the text that causes it is alone."""
    tasks = [task for task, _ in work]
    slot = tasks[0].slot
    if run.is_over_for(slot):
        claims.release(tasks)
        return
    provider = slot.embedder()
    assert provider is not None  # noqa: S101 - drain has looked at the setting
    try:
        vectors, signs = _embed(provider, [text for _, text in work])
    except ProviderError as error:
        if not (error.provider_wide or error.permanent):
            error = _attributed(provider, error)
        if error.provider_wide:
            run.in_trouble.add(slot.model)
            is_open = circuit_breaker.record_failure(slot.model, "passage", error)
            log.warning(
                "The embedding provider of %s is in trouble (incident %s): %s",
                slot.model,
                error.incident,
                error,
            )
            run.refresh_at = 0.0
            # An open circuit keeps all tasks of the model; before it opens, these wait while others are tried.
            claims.release(tasks, error=error.public, delay=0 if is_open else retry_delay(1))
        elif len(work) > 1:
            middle = len(work) // 2
            _embed_and_store(run, entity, work[:middle])
            _embed_and_store(run, entity, work[middle:])
        else:
            log.warning(
                "A text could not be embedded by %s (incident %s): %s", slot.model, error.incident, error
            )
            if error.permanent or tasks[0].attempts >= settings.EMBEDDING_MAX_ATTEMPTS:
                cause = "refused" if error.permanent else "attempts_used"
                _fail(run, entity, tasks[0], error.public, cause=cause)
            else:
                delay = error.retry_after or retry_delay(tasks[0].attempts)
                claims.retry_later(tasks[0], error=error.public, delay=delay)
        return
    if slot.model in run.failing:
        circuit_breaker.record_success(slot.model, "passage")
        run.failing -= {slot.model}
    run.done.embedded += len(work)
    run.done.stored += claims.store(
        entity,
        [
            Embedded(task, vector, provider.truncates(text), own)
            for (task, text), vector, own in zip(work, vectors, signs, strict=True)
        ],
    )


def _embed(provider: EmbeddingProvider, texts: list[str]) -> tuple[Vectors, list[bytes] | list[None]]:
    """The checked vectors, and the signs of the texts' first word pieces if the provider gives word pieces."""
    dimension = settings.EMBEDDING_DIMENSION
    signs: list[bytes] | list[None] = [None] * len(texts)
    try:
        if isinstance(provider, TokenProvider):
            vectors, tokens = provider.embed_with_tokens(texts, "passage")
            tokens = checked_tokens(tokens, len(texts), dimension)
            signs = [token_signs(text, own) for text, own in zip(texts, tokens, strict=True)]
        else:
            vectors = provider.embed(texts, "passage")
    except ProviderError:
        raise
    except Exception as error:
        # A provider that raises an undocumented error must not stop the loop.
        log.exception("The embedding provider raised an unexpected error.")
        raise ProviderError(f"unexpected error of the provider: {type(error).__name__}: {error}") from error
    return checked(vectors, len(texts), dimension), signs


def _attributed(provider: EmbeddingProvider, error: ProviderError) -> ProviderError:
    """Tells whether the text or the provider caused the error, by embedding a harmless text: if that fails too, the provider did,
    and no text loses an attempt. The reason is then that of the harmless text, since all tenants see it."""
    try:
        _embed(provider, [PROBE])
    except ProviderError as probe:
        pause = error.retry_after or probe.retry_after
        return ProviderError(str(probe), provider_wide=True, lasting=probe.lasting, retry_after=pause)
    return error


def _fail(run: _Run, entity: EmbeddedEntity, task: Task, reason: str, *, cause: str) -> None:
    run.done.failed += 1
    count_failed(cause)
    with tenant_context(task.tenant_id):
        claims.fail(entity, task, error=reason)


def retry_delay(attempts: int) -> float:
    """Seconds before the next attempt: doubling from EMBEDDING_RETRY_BASE up to EMBEDDING_RETRY_MAX, with full jitter
    in the upper half, so that rows that failed together do not come back together."""
    ceiling = min(settings.EMBEDDING_RETRY_BASE * 2.0 ** (attempts - 1), settings.EMBEDDING_RETRY_MAX)
    return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


class Loop(WorkLoop):
    """Drains the queue; both entry points run it."""

    queue = heartbeats.EMBEDDINGS

    def __init__(self) -> None:
        super().__init__()
        self._claimed: list[Task] = []
        self._watermarks = QueueWatermarks()

    def begin(self) -> None:
        reconcile()

    def work(self) -> None:
        drain(stop=self.ended, claimed=self._claimed, watermarks=self._watermarks)

    def pause(self) -> float:
        """Seconds until the next poll, or until a provider that is down is tried again, if that is sooner."""
        waits: list[float | None] = []
        self.protected(lambda: waits.extend(circuit_breaker.seconds_until_trial("passage").values()))
        # A trial that is due already is one that this process cannot make.
        return min(
            [settings.EMBEDDING_POLL, *(max(wait, 0.01) for wait in waits if wait is not None and wait > 0)]
        )

    def release(self) -> None:
        claims.release(self._claimed)
