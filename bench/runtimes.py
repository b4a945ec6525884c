"""The two runtimes of the default model side by side: `make bench` writes bench/results/runtimes.json.

Runs in the environment of `make test-torch`, which has both. Both get the same texts in the same batches on one thread,
round by round in turn, and the median round counts; onnx, which the portal runs by default, is the floor of the ratios.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

from bench import corpus
from bench.results import write
from embeddings.providers.base import EmbeddingProvider
from embeddings.providers.sentence_transformers import SentenceTransformers
from embeddings.providers.torch_runtime import TorchRuntime

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
BATCH = 32
PASSAGES, QUERIES = 10 * BATCH, 100


def passages_per_second(runtime: EmbeddingProvider, texts: list[str]) -> float:
    began = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        runtime.embed(texts[start : start + BATCH], "passage")
    return len(texts) / (time.perf_counter() - began)


def query_ms(runtime: EmbeddingProvider, questions: list[str]) -> float:
    """The median of one question a call."""
    spent = []
    for question in questions:
        began = time.perf_counter()
        runtime.embed([question], "query")
        spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


def measure() -> dict[str, Any]:
    texts = [f"{tool['name']} {tool['description']}" for tool in corpus.tools(PASSAGES)]
    questions = corpus.questions(QUERIES)
    runtimes: dict[str, EmbeddingProvider] = {
        "onnx": SentenceTransformers(threads=1),
        "torch": TorchRuntime(threads=1, device="cpu"),
    }
    rates: dict[str, list[float]] = {name: [] for name in runtimes}
    times: dict[str, list[float]] = {name: [] for name in runtimes}
    for runtime in runtimes.values():
        runtime.embed(texts[:BATCH], "passage")
    for _ in range(ROUNDS):
        for name, runtime in runtimes.items():
            rates[name].append(passages_per_second(runtime, texts))
            times[name].append(query_ms(runtime, questions))
    results: dict[str, Any] = {
        name: {
            "passages_per_s": round(statistics.median(rates[name]), 1),
            "query_ms": round(statistics.median(times[name]), 2),
        }
        for name in runtimes
    }
    pairs = {
        "passages_ratio": zip(rates["torch"], rates["onnx"], strict=True),
        "query_ratio": zip(times["torch"], times["onnx"], strict=True),
    }
    return results | {
        name: round(statistics.median(torch / onnx for torch, onnx in both), 3)
        for name, both in pairs.items()
    }


def main() -> int:
    results = measure()
    for name, figures in results.items():
        print(f"{name:14} {figures}", flush=True)
    write("runtimes", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
