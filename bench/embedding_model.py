"""Measures the model in this process: how fast, how big, and with --reference how near to the sentence-transformers
library, which then has to be installed beside the portal's own packages (`docs/embedding-model.md` says how). Texts come
from a folder of labelled sets. Search as a whole is measured elsewhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from embeddings.providers import onnx_model
from embeddings.providers.sentence_transformers import SentenceTransformers

SETS = ("apigen", "bfcl", "mcpverse", "metatool", "sealtools")
ODD = [
    "",
    " ",
    "?",
    "\0",
    "a\0b",
    "[PAD]",
    "text [SEP] more",
    "\ufffd",
    "x" * 5000,
    "漢" * 300,
    "a " * 254,
    "a " * 255,
]
NEAR = 0.9999
BATCH = 32


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def passage(tool: dict[str, Any]) -> str:
    return " ".join([tool["name"], tool["description"] or "", *(tool["parameters"].get("properties") or {})])


def query_times(provider: SentenceTransformers, queries: list[str]) -> str:
    """One query a call. The processor's time is what the clock would show on a machine with nothing else to do."""
    clock, processor = [], []
    for query in queries:
        begin, begin_processor = time.perf_counter(), time.process_time()
        provider.embed([query], "query")
        clock.append((time.perf_counter() - begin) * 1000)
        processor.append((time.process_time() - begin_processor) * 1000)
    figures = (
        f"{name} median {np.median(ms):.1f}, p99 {np.percentile(ms, 99):.1f} ms"
        for name, ms in (("clock", clock), ("processor", processor))
    )
    return "; ".join(figures)


def passage_speed(provider: SentenceTransformers, texts: list[str], calls_of: int) -> str:
    begin, begin_processor = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), calls_of):
        provider.embed(texts[start : start + calls_of], "passage")
    clock, processor = time.perf_counter() - begin, time.process_time() - begin_processor
    return f"{len(texts) / clock:.0f} texts/s, {processor / len(texts) * 1000:.1f} ms of processor a text"


def megabytes() -> str:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {name: int(value.split()[0]) for name, value in (line.split(":") for line in lines)}
    shared = kilobytes["Shared_Clean"] + kilobytes["Private_Clean"]
    return f"{kilobytes['Rss'] / 1000:.0f} MB resident, of which files may share {shared / 1000:.0f} MB"


def measure(sets: Path, repeats: int) -> None:
    provider = SentenceTransformers()
    before = megabytes()
    begin = time.perf_counter()
    provider.embed(["warm up"], "query")
    print(f"loaded in {time.perf_counter() - begin:.2f} s; before {before}; after {megabytes()}")
    queries = [row["query"] for row in rows(sets / "bfcl" / "queries.jsonl")]
    texts = [passage(row) for row in rows(sets / "bfcl" / "tools.jsonl")]
    for name, some in (("queries", queries), ("passages", texts)):
        tokens = [provider.count_tokens(text) for text in some]
        print(
            f"{len(some)} {name}, tokens median {np.median(tokens):.0f}, p99 {np.percentile(tokens, 99):.0f}"
        )
    for _ in range(repeats):
        print(f"one query a call: {query_times(provider, queries)}")
    print(f"then {megabytes()}")
    for threads in (1, 2):
        provider = SentenceTransformers(threads=threads)
        provider.embed(["warm up"], "query")
        for _ in range(repeats):
            print(f"{threads} thread(s), {BATCH} passages a call: {passage_speed(provider, texts, BATCH)}")
        print(f"then {megabytes()}")


def compare(sets: Path) -> bool:
    """Whether every vector is as the library's, over a sample of all sets and odd texts."""
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]  # noqa: PLC0415 - installed for this only

    texts = [passage(row) for name in SETS for row in rows(sets / name / "tools.jsonl")[::40]]
    texts += [row["query"] for name in SETS for row in rows(sets / name / "queries.jsonl")[::5]]
    texts += [" ".join(texts[start : start + 20]) for start in range(0, 600, 20)] + ODD
    provider = SentenceTransformers()
    library = SentenceTransformer(str(onnx_model.wheel_file("model.safetensors").parent), device="cpu")
    ours, theirs = provider.embed(texts, "passage"), library.encode(texts, batch_size=32)
    cosines = (ours.astype(np.float64) * theirs.astype(np.float64)).sum(axis=1)
    truncated = sum(provider.truncates(text) for text in texts)
    print(
        f"{len(texts)} texts, {truncated} of them truncated: least cosine {cosines.min():.9f}, "
        f"largest difference of a component {np.abs(ours - theirs).max():.1e}"
    )
    return bool(cosines.min() >= NEAR)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sets", type=Path, default=Path("../shared/retrieval"), help="the folder of labelled sets"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--reference", action="store_true", help="compare with the sentence-transformers library"
    )
    arguments = parser.parse_args()
    if not arguments.reference:
        measure(arguments.sets, arguments.repeats)
    elif not compare(arguments.sets):
        sys.exit(f"not the same vectors: a cosine is below {NEAR}")


if __name__ == "__main__":
    main()
