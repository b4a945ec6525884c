"""EMB-10: two runtimes of the same weights are one model. Runs in the environment of `make test-torch`, which has torch.

To see it fail: `readable` left out of torch_runtime.py, or another pooling in the graph of onnx_model.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embeddings.providers import ProviderError, get_provider, onnx_model
from embeddings.providers.base import checked
from embeddings.providers.sentence_transformers import MAX_CHARACTERS, SentenceTransformers
from embeddings.providers.torch_runtime import TorchRuntime

ROOT = Path(__file__).parents[2]
COUNT = 1000
NEAR = 0.9999
ODD = [
    "", " ", "\n\t", "?", "\0", "a\0b", "\ufffd", "[PAD]", "text [SEP] more", "a \ud800bad text\udfff", "漢" * 300,
    "Überweisung für Größe und Maß", "платёж отменить", "دفع الفاتورة", "भुगतान रद्द करें", "👩‍👩‍👧 family 🧾 invoice", "e\u0301tat", "ﬁle",
    "x" * 5000, "a " * 254, "a " * 255, "word " * MAX_CHARACTERS,
]  # fmt: skip


def strings(value: Any) -> Iterator[str]:
    """Every text of a JSON document that says something."""
    if isinstance(value, str) and len(value) > 15:
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def texts() -> list[str]:
    """1,000 texts: odd ones, those of the demo catalogue and of the labelled sets where they are, and mixtures of them,
    the longest of which the model cuts."""
    choice = random.Random(0)
    found: set[str] = set()
    for path in sorted((ROOT / "tools" / "demo").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            found.update(strings(json.loads(line)))
    for path in sorted((ROOT.parent / "shared" / "retrieval").glob("*/queries.jsonl")):
        with path.open(encoding="utf-8") as lines:
            found.update(json.loads(line)["query"] for line in lines)
    own = sorted(found)
    assert len(own) > 100, "the demo catalogue is gone"
    made = choice.sample(own, min(600, len(own)))
    while len(made) < COUNT - len(ODD):
        made.append(" ".join(choice.choices(own, k=choice.choice((2, 3, 5, 30)))))
    return ODD + made


@pytest.fixture(scope="module")
def onnx() -> SentenceTransformers:
    return SentenceTransformers()


@pytest.fixture(scope="module")
def torch_runtime() -> TorchRuntime:
    return TorchRuntime(device="cpu", threads=2)


def test_both_runtimes_give_the_same_vectors_of_a_thousand_texts_EMB_7_EMB_10(
    onnx: SentenceTransformers, torch_runtime: TorchRuntime
) -> None:
    some = texts()
    ours, theirs = onnx.embed(some, "passage"), torch_runtime.embed(some, "passage")
    assert len(some) == COUNT
    checked(theirs, COUNT, 384)
    cosines = (ours.astype(np.float64) * theirs.astype(np.float64)).sum(axis=1)
    assert cosines.min() >= NEAR, repr(some[cosines.argmin()][:200])
    # The comparison can fail: no two different texts are as near as the two vectors of one.
    assert (ours[len(ODD)].astype(np.float64) @ theirs[len(ODD) + 1].astype(np.float64)) < NEAR


def test_both_runtimes_flag_the_same_texts_as_truncated_EMB_1(
    onnx: SentenceTransformers, torch_runtime: TorchRuntime
) -> None:
    some = texts()
    flags = [onnx.truncates(text) for text in some]
    assert flags == [torch_runtime.truncates(text) for text in some]
    assert 10 < sum(flags) < COUNT / 2


def test_both_runtimes_have_one_name_EMB_10(settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "sentence-transformers"
    onnx = get_provider()
    settings.EMBEDDING_RUNTIME, settings.EMBEDDING_DEVICE = "torch", "cpu"
    torch = get_provider()
    assert isinstance(onnx, SentenceTransformers)
    assert isinstance(torch, TorchRuntime)
    assert torch.model == onnx.model == settings.EMBEDDING_MODEL


def test_a_folder_is_a_model_too_and_its_texts_are_marked_EMB_7(torch_runtime: TorchRuntime) -> None:
    folder = str(onnx_model.wheel_file("model.safetensors").parent)
    marked = TorchRuntime(
        model=folder, device="cpu", query_prefix="query: ", passage_prefix="passage: ", batch_size=2
    )
    for kind in ("query", "passage"):
        [vector] = marked.embed(["pay"], kind)  # type: ignore[arg-type]
        [plain] = torch_runtime.embed([f"{kind}: pay"], kind)  # type: ignore[arg-type]
        np.testing.assert_allclose(vector, plain, atol=1e-6)


def test_a_model_that_cannot_be_loaded_is_the_providers_trouble_R5(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="cannot be loaded") as raised:
        TorchRuntime(model=str(tmp_path / "none"), device="cpu").embed(["a"], "passage")
    assert raised.value.provider_wide


def test_no_text_gives_no_vector(torch_runtime: TorchRuntime) -> None:
    assert torch_runtime.embed([], "query").shape == (0, 384)
