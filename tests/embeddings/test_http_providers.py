"""EMB-7, R5: the providers behind HTTP against a real server on the loopback: what they ask, what they take, whom they
blame. What that means for the catalogue is in tests/faults/test_provider_faults.py. Nothing here needs the database.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from embeddings.providers import EmbeddingProvider, ProviderError, get_provider
from embeddings.providers.local_http import LocalHttp
from embeddings.providers.openai_compatible import OpenAICompatible
from embeddings.queue import worker
from portal.outbound import json_server
from tests.support.embeddings.providers import hash_vector
from tests.support.servers.embedding_server import EmbeddingServer, closed_port, embedding_server

KEY = "sk-a-key-that-nobody-may-see"
TEXTS = ["pay an invoice", "cancel an order", "größe"]
BOTH = pytest.mark.parametrize("name", ["openai-compatible", "local-http"])


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def provider_of(name: str, server: EmbeddingServer, **options: Any) -> EmbeddingProvider:
    options = {"model": "some-model", "dimension": 384, "url": server.url(name), "timeout": 20} | options
    if name == "local-http":
        return LocalHttp(**options)
    return OpenAICompatible(**{"api_key": KEY, **options})


def failure(name: str, server: EmbeddingServer, fault: str, **options: Any) -> ProviderError:
    """The error of a search, which has no probe."""
    server.fault = fault
    with pytest.raises(ProviderError) as raised:
        provider_of(name, server, **options).embed(["pay"], "query")
    return raised.value


class TestWhatIsAsked:
    def test_of_an_openai_compatible_server_with_key_model_and_dimensions_EMB_7(
        self, server: EmbeddingServer
    ) -> None:
        provider_of("openai-compatible", server, url=f"{server.address}/v1/?version=2").embed(TEXTS, "query")
        [(path, headers, body)] = server.asked
        assert path == "/v1/embeddings?version=2"
        assert headers["Authorization"] == f"Bearer {KEY}"
        assert body == {
            "model": "some-model",
            "input": TEXTS,
            "dimensions": 384,
            "encoding_format": "float",
        }

    def test_of_a_server_without_key_no_authorization_is_sent(self, server: EmbeddingServer) -> None:
        provider_of("openai-compatible", server, api_key="").embed(TEXTS, "query")
        assert "Authorization" not in server.asked[0][1]

    def test_of_a_local_server_that_it_normalises_and_cuts_EMB_7(self, server: EmbeddingServer) -> None:
        provider_of("local-http", server).embed(TEXTS, "query")
        [(path, headers, body)] = server.asked
        assert path == "/embed"
        assert "Authorization" not in headers
        assert body == {"inputs": TEXTS, "normalize": True, "truncate": True}

    @BOTH
    def test_passages_and_queries_are_marked_for_models_that_want_it_EMB_7(
        self, server: EmbeddingServer, name: str
    ) -> None:
        provider = provider_of(name, server, query_prefix="query: ", passage_prefix="passage: ")
        for kind in ("query", "passage"):
            [vector] = provider.embed(["pay"], kind)  # type: ignore[arg-type]
            np.testing.assert_allclose(vector, hash_vector(f"{kind}: pay"), atol=1e-6)

    @BOTH
    def test_proxies_of_the_environment_are_not_used(
        self, server: EmbeddingServer, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, "http://127.0.0.1:1")
        assert provider_of(name, server).embed(TEXTS, "query").shape == (3, 384)


class TestWhatIsTaken:
    @BOTH
    def test_one_vector_a_text_in_order_EMB_7(self, server: EmbeddingServer, name: str) -> None:
        vectors = provider_of(name, server).embed(TEXTS, "passage")
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, [hash_vector(text) for text in TEXTS], atol=1e-6)

    def test_a_reply_in_another_order_is_put_right_by_its_index_EMB_7(self, server: EmbeddingServer) -> None:
        server.fault = "shuffled"
        vectors = provider_of("openai-compatible", server).embed(TEXTS, "passage")
        np.testing.assert_allclose(vectors, [hash_vector(text) for text in TEXTS], atol=1e-6)

    def test_a_reply_with_an_index_twice_is_refused_EMB_7(self, server: EmbeddingServer) -> None:
        server.fault = "an index twice"
        with pytest.raises(ProviderError, match="which vector is of which text"):
            provider_of("openai-compatible", server).embed(TEXTS, "query")

    @BOTH
    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("wrong count", "2 vectors for 1 texts"),
            ("wrong dimension", "vectors of 768 dimensions, not 384"),
            ("NaN", "not finite"),
            ("NULL", "not finite|no list of vectors"),
            ("zero vector", "norm 0, not 1"),
            ("not normalised", "norm 3, not 1"),
            ("HTML", "no JSON"),
            ("10 MB", "more than 8 MB"),
            ("error in a 200", "no list of vectors: this is refused"),
        ],
    )
    def test_a_reply_that_keeps_no_contract_is_refused_EMB_7_R13(
        self, server: EmbeddingServer, name: str, fault: str, message: str
    ) -> None:
        error = failure(name, server, fault)
        assert re.search(message, str(error))
        assert error.permanent == (fault == "wrong dimension")
        assert not error.provider_wide


class TestWhoIsBlamed:
    @BOTH
    @pytest.mark.parametrize(
        ("fault", "blame"),
        [
            ("400 for one text", "text"),
            ("413", "text"),
            ("422", "text"),
            ("424", "uncertain"),
            ("500", "uncertain"),
            ("502 HTML", "uncertain"),
            ("reset", "uncertain"),
            ("401", "provider"),
            ("403", "provider"),
            ("404", "text"),
            ("429", "provider"),
            ("503", "provider"),
            ("redirect", "provider"),
        ],
    )
    def test_by_the_status_R5(self, server: EmbeddingServer, name: str, fault: str, blame: str) -> None:
        server.fault = fault
        with pytest.raises(ProviderError) as raised:
            provider_of(name, server).embed(["poison"], "query")
        assert (raised.value.permanent, raised.value.provider_wide) == (blame == "text", blame == "provider")
        assert server.address.removeprefix("http://") in str(raised.value)
        assert len(server.asked) == 1  # a redirect is not followed, a search is not probed

    @BOTH
    def test_the_provider_if_a_harmless_text_fails_too_R5(self, server: EmbeddingServer, name: str) -> None:
        provider = provider_of(name, server)
        server.fault = "500"
        for guilty in ("", "poison"):
            server.guilty = guilty
            with pytest.raises(ProviderError, match="500: this is refused") as raised:
                provider.embed(["poison"], "passage")
            assert not raised.value.provider_wide
            assert worker._attributed(provider, raised.value).provider_wide == (guilty == "")
        assert len(server.asked) == 4

    @BOTH
    def test_the_provider_if_its_port_is_closed_R5(self, server: EmbeddingServer, name: str) -> None:
        provider = provider_of(name, server, url=closed_port())
        with pytest.raises(ProviderError, match="cannot be reached") as raised:
            provider.embed(["pay"], "query")
        assert raised.value.provider_wide

    def test_the_provider_if_it_speaks_no_tls_or_has_no_name_R5(self, server: EmbeddingServer) -> None:
        for url in (server.address.replace("http", "https"), "http://no-such-host.invalid"):
            with pytest.raises(ProviderError, match="cannot be reached") as raised:
                provider_of("local-http", server, url=url).embed(["pay"], "query")
            assert raised.value.provider_wide

    @BOTH
    @pytest.mark.parametrize("fault", ["drip", "dripping headers"])
    def test_a_server_that_sends_a_byte_now_and_then_is_left_at_the_deadline_R5(
        self, server: EmbeddingServer, name: str, fault: str
    ) -> None:
        # The server drips for a minute, and each byte comes long before the timeout of one read.
        begin = time.monotonic()
        assert "did not answer within 0.5 s" in str(failure(name, server, fault, timeout=0.5))
        assert time.monotonic() - begin < 20


class TestRetryAfter:
    @pytest.mark.parametrize("value", ["7", " 7 "])
    def test_is_taken_in_seconds_R5(self, server: EmbeddingServer, value: str) -> None:
        server.retry_after = value
        assert failure("local-http", server, "429").retry_after == 7

    def test_is_taken_as_a_date_R5(self, server: EmbeddingServer) -> None:
        server.retry_after = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
        assert failure("local-http", server, "429").retry_after == pytest.approx(60, abs=1.5)

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            ("0", 1),
            ("999999999999999", json_server.MAX_PAUSE),
            ("Fri, 01 Jan 2100 00:00:00 GMT", json_server.MAX_PAUSE),
            ("Sat, 01 Jan 2000 00:00:00 GMT", 1),
            ("soon", None),
            ("-5", None),
            ("", None),
            ("Fri, 01 Jan 2100 00:00:00", None),
        ],
    )
    def test_has_bounds_and_may_be_nonsense_R5(
        self, server: EmbeddingServer, value: str, seconds: float | None
    ) -> None:
        server.retry_after = value
        assert failure("local-http", server, "429").retry_after == seconds


class TestTheKey:
    @pytest.mark.parametrize("fault", ["400 for one text", "401", "403", "500", "error in a 200", "HTML"])
    def test_is_in_no_error_and_no_log_EMB_7(
        self, server: EmbeddingServer, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        server.fault, server.complaint = fault, f"the key {KEY} is not valid"
        with pytest.raises(ProviderError) as raised:
            provider_of("openai-compatible", server).embed(["poison"], "passage")
        assert server.asked[0][1]["Authorization"].endswith(KEY)
        assert KEY not in f"{raised.value!r} {raised.value.__cause__!r}"
        assert KEY not in caplog.text
        assert KEY not in repr(json_server.JsonServer("http://127.0.0.1", "EMBEDDING_URL", KEY))

    def test_goes_to_the_address_of_the_settings_and_to_no_other_EMB_10(
        self, server: EmbeddingServer, settings: Settings
    ) -> None:
        settings.EMBEDDING_PROVIDER, settings.EMBEDDING_API_KEY = "openai-compatible", KEY
        settings.EMBEDDING_URL = f"{server.address}/v1"
        settings.EMBEDDING_QUERY_PREFIX, settings.EMBEDDING_PREVIOUS_QUERY_PREFIX = "new: ", "old: "

        def sent(**options: str) -> tuple[str | None, str]:
            provider = get_provider(**options)
            assert provider is not None
            provider.embed(["a"], "query")
            _, headers, body = server.asked[-1]
            return headers.get("Authorization"), body["input"][0]

        assert sent() == (f"Bearer {KEY}", "new: a")
        assert sent(model="older") == (f"Bearer {KEY}", "old: a")
        with embedding_server() as other:
            provider = get_provider(model="older", url=f"{other.address}/v1")
            assert provider is not None
            provider.embed(["a"], "query")
            assert "Authorization" not in other.asked[0][1]
            settings.EMBEDDING_PREVIOUS_API_KEY = "older-key"
            provider = get_provider(model="older", url=f"{other.address}/v1")
            assert provider is not None
            provider.embed(["a"], "query")
            assert other.asked[1][1]["Authorization"] == "Bearer older-key"


def start(**variables: str) -> subprocess.CompletedProcess[str]:
    """Reads the settings in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "import django; django.setup()"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", **variables},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


class TestAWrongSettingEndsTheStartWithOneSentence:
    @pytest.mark.parametrize(
        ("variables", "sentence"),
        [
            ({}, "EMBEDDING_PROVIDER=openai-compatible needs EMBEDDING_URL, the address of the server."),
            ({"EMBEDDING_URL": "ftp://a"}, "EMBEDDING_URL must be an http or https address"),
            ({"EMBEDDING_URL": "http://[a"}, "EMBEDDING_URL must be an http or https address"),
            ({"EMBEDDING_URL": "http://u:hidden@a"}, "EMBEDDING_URL must hold no user or password"),
            (
                {"EMBEDDING_URL": "http://a", "EMBEDDING_API_KEY": "hidden\nkey"},
                "EMBEDDING_API_KEY holds characters that no HTTP header can carry.",
            ),
        ],
    )
    def test_of_an_address_or_a_key_EMB_7(self, variables: dict[str, str], sentence: str) -> None:
        done = start(EMBEDDING_PROVIDER="openai-compatible", **variables)
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert sentence in last
        assert "hidden" not in last

    def test_but_a_right_one_does_not(self) -> None:
        done = start(EMBEDDING_PROVIDER="local-http", EMBEDDING_URL="http://127.0.0.1:8080")
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_slot_without_address_is_refused(self, settings: Settings) -> None:
        settings.EMBEDDING_URL = ""
        with pytest.raises(ImproperlyConfigured, match="needs EMBEDDING_URL"):
            get_provider(provider="local-http")

    @pytest.mark.skipif(
        importlib.util.find_spec("torch") is not None, reason="the environment of make test-torch has it"
    )
    def test_torch_without_the_extra_names_the_command_EMB_7(self) -> None:
        done = start(EMBEDDING_RUNTIME="torch")
        assert done.returncode == 1
        assert (
            done.stderr.strip()
            .splitlines()[-1]
            .endswith(
                "EMBEDDING_RUNTIME=torch needs sentence-transformers: pip install -r requirements/torch.in"
            )
        )
