"""EMB-7, R5, R13: what becomes of the catalogue while an embedding provider misbehaves in one of 16 ways, and afterwards.

The real pipeline on both sides: tools are created, a worker drains, the owner looks at the rows. Two outcomes, beside that nothing is wrong:

* provider: nothing is spent. All rows are pending without an attempt, the circuit is open and has the reason.
* parked: it would fail again, so that the row has failed at once, with the reason.

A fault of everything is the provider's even where it looks like a text's, as the worker's probe fails too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from embeddings import providers
from embeddings.providers import ProviderError, Vectors
from embeddings.queue import worker
from portal.outbound import json_server
from portal.resilience import circuit_breaker
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import HashEmbedder
from tests.support.servers.embedding_server import EmbeddingServer, closed_port, embedding_server

IN_PROCESS = f"{__name__}.InProcess"
HTTP = ("openai-compatible", "local-http")
DRIP_SECONDS = 0.5


@dataclass(frozen=True)
class Fault:
    """Its name, whom it is on over HTTP, what it is in this process, and whom it is on there."""

    name: str
    over_http: str
    in_process: Callable[[Vectors], Any]
    there: str


def raises(error: Exception) -> Callable[[Vectors], Any]:
    def reply(vectors: Vectors) -> Any:
        raise error

    return reply


def out_of(vectors: Vectors) -> Any:
    raise MemoryError


FAULTS = [
    Fault("429", "provider", raises(ProviderError("busy", provider_wide=True, retry_after=7)), "provider"),
    Fault("500", "provider", raises(RuntimeError("inference failed")), "provider"),
    Fault("502 HTML", "provider", raises(ProviderError("bad gateway")), "provider"),
    Fault("reset", "provider", raises(ConnectionResetError()), "provider"),
    Fault("drip", "provider", raises(TimeoutError()), "provider"),
    Fault("10 MB", "provider", out_of, "provider"),
    Fault("wrong count", "provider", lambda vectors: [*vectors, vectors[0]], "provider"),
    # OpenAI's protocol has an index, by which the order is put right. Elsewhere nobody can see a swapped order.
    Fault("shuffled", "ready", lambda vectors: vectors, "ready"),
    Fault("wrong dimension", "parked", lambda vectors: np.hstack([vectors, vectors]), "parked"),
    Fault("NaN", "provider", lambda vectors: vectors * np.nan, "provider"),
    Fault("zero vector", "provider", lambda vectors: vectors * 0, "provider"),
    Fault("NULL", "provider", lambda vectors: [None for _ in vectors], "provider"),
    Fault("error in a 200", "provider", lambda vectors: {"error": "model not found"}, "provider"),
    Fault("401", "provider", raises(ProviderError("the model is locked", provider_wide=True)), "provider"),
    Fault("400 for one text", "one parked", lambda vectors: vectors, "one parked"),
    Fault("refused", "provider", raises(ProviderError("cannot be loaded", provider_wide=True)), "provider"),
]


class InProcess(HashEmbedder):
    """A provider in this process, like that of sentence-transformers, with the fault of the test."""

    fault: Fault | None = None

    def embed(self, texts: Any, kind: Any) -> Any:
        vectors = super().embed(texts, kind)
        if self.fault is None:
            return vectors
        if self.fault.name == "400 for one text" and any("poison" in text for text in texts):
            raise ProviderError("this text is refused", permanent=True)
        return self.fault.in_process(vectors)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def choose(settings: Any, provider: str, url: str) -> None:
    settings.EMBEDDING_PROVIDER, settings.EMBEDDING_URL = provider, url
    providers._provider.cache_clear()
    circuit_breaker.close_all()


@contextmanager
def misbehaving(settings: Any, server: EmbeddingServer, provider: str, fault: Fault) -> Iterator[None]:
    """The provider has the fault in the block, and none afterwards."""
    url = server.url(provider) if provider in HTTP else ""
    if provider in HTTP:
        server.fault = "" if fault.name == "refused" else fault.name
        choose(settings, provider, closed_port() if fault.name == "refused" else url)
    else:
        InProcess.fault = fault
        choose(settings, provider, url)
    try:
        yield
    finally:
        server.fault, InProcess.fault = "", None
        choose(settings, provider, url)


def attempts(pipeline: Pipeline) -> set[int]:
    return {task["attempts"] for task in pipeline.tasks()}


@pytest.mark.parametrize(
    ("fault", "provider"),
    [
        pytest.param(fault, provider, id=f"{fault.name} {provider}")
        for fault in FAULTS
        for provider in (*HTTP, "in-process")
        if (fault.name, provider) != ("shuffled", "local-http")  # its reply has no index: see above
    ],
)
def test_under_each_fault_no_row_is_lost_and_only_its_own_fault_costs_it_R5_R13(
    pipeline: Pipeline,
    settings: Any,
    server: EmbeddingServer,
    fault: Fault,
    provider: str,
) -> None:
    live_through(pipeline, settings, server, fault, provider)


@pytest.mark.parametrize(("name", "what"), [("500", "probe"), ("400 for one text", "permanent")])
@pytest.mark.parametrize("provider", HTTP)
def test_the_table_notices_a_product_without_probe_or_without_permanent_errors_R5(
    pipeline: Pipeline,
    settings: Any,
    server: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    name: str,
    what: str,
) -> None:
    if what == "probe":
        monkeypatch.setattr(worker, "_attributed", lambda provider, error: error)
    else:
        monkeypatch.setattr(json_server, "PERMANENT", frozenset())
    [fault] = [fault for fault in FAULTS if fault.name == name]
    with pytest.raises(AssertionError):
        live_through(pipeline, settings, server, fault, provider)


def live_through(
    pipeline: Pipeline,
    settings: Any,
    server: EmbeddingServer,
    fault: Fault,
    provider: str,
) -> None:
    settings.EMBEDDING_TIMEOUT = DRIP_SECONDS if fault.name == "drip" else 20
    settings.EMBEDDING_CIRCUIT_SECONDS = 30
    settings.EMBEDDING_CIRCUIT_ERRORS = 1
    outcome = fault.over_http if provider in HTTP else fault.there
    poison = pipeline.add("A poison.")
    good = [pipeline.add(f"Text {number}.") for number in range(7)]
    everything = [poison, *good]

    with misbehaving(settings, server, provider if provider in HTTP else IN_PROCESS, fault):
        pipeline.work()
        circuit = pipeline.circuit()
        statuses = {pk: pipeline.status(pk) for pk in everything}
        if outcome == "ready":
            assert set(statuses.values()) == {"ready"}
        elif outcome == "provider":
            assert set(statuses.values()) == {"pending"}
            assert attempts(pipeline) == {0}
            assert circuit is not None
            assert {task["last_error"] for task in pipeline.tasks()} == {circuit["reason"]} != {""}
            assert circuit["left"] == pytest.approx(7 if fault.name == "429" else 30, abs=3)
            assert pipeline.work().claimed == 0
        elif outcome == "parked":
            assert set(statuses.values()) == {"failed"}
            assert {pipeline.embedding(pk)["error"] for pk in everything} == {
                ProviderError(
                    "The embedding provider returned vectors of 768 dimensions, not 384.", permanent=True
                ).public
            }
            assert attempts(pipeline) == {1}
        else:
            assert statuses == {poison: "failed"} | dict.fromkeys(good, "ready")
            assert "cannot embed this text" in pipeline.embedding(poison)["error"]
        if outcome not in {"provider", "ready"}:
            assert circuit is None
        pipeline.check_consistent()

    pipeline.refresh(*[pk for pk, status in statuses.items() if status == "failed"])
    pipeline.make_due()
    pipeline.work()
    for pk in everything:
        pipeline.check_ready(pk)


@pytest.mark.parametrize("provider", HTTP)
@pytest.mark.parametrize("fault", ["500", "502 HTML", "reset", "drip", "NaN", "wrong count"])
def test_a_text_that_alone_makes_the_server_fail_pays_alone_R4_R5(
    pipeline: Pipeline,
    settings: Any,
    server: EmbeddingServer,
    provider: str,
    fault: str,
) -> None:
    settings.EMBEDDING_TIMEOUT = DRIP_SECONDS if fault == "drip" else 20
    poison = pipeline.add("A poison.")
    good = [pipeline.add(f"Text {number}.") for number in range(7)]
    choose(settings, provider, server.url(provider))
    server.fault, server.guilty = fault, "poison"
    try:
        pipeline.work()
    finally:
        server.fault = server.guilty = ""
    for pk in good:
        pipeline.check_ready(pk)
    task = pipeline.task(poison)
    assert task is not None
    assert (task["status"], task["attempts"], pipeline.status(poison)) == ("pending", 1, "pending")
    assert pipeline.circuit() is None
