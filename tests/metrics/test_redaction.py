"""What is stored of a question (SRC-9, S8): never a secret, and with SEARCH_LOG=redacted no word."""

from __future__ import annotations

from typing import Any

import pytest

from metrics.redaction import mask_secrets, redact, stored_query

SECRETS = {
    "use password=hunter2 for the login": "hunter2",
    "token: 'abc def' and more": "abc def",
    "api_key = q1w2e3r4": "q1w2e3r4",
    "send Authorization: Bearer abc.def-123 please": "abc.def-123",
    "curl with bearer 0123456789abcdef": "0123456789abcdef",
    "connect to postgres://admin:geheim@db.example.com/prod": "geheim",
    "call it with tp_0123456789abcdefghij": "tp_0123456789abcdefghij",
    "my key is sk-proj1234567890abcdef": "sk-proj1234567890abcdef",
    "clone with ghp_abcdefghijklmnopqrstuvwxyz0123456789": "ghp_abcdefghij",
    "AKIAIOSFODNN7EXAMPLE lists the buckets": "AKIAIOSFODNN7EXAMPLE",
    "decode eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_1": "eyJzdWIiOiIxMjM0In0",
    "sign 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08": "9f86d081884c7d65",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY----- sign": "MIIEpAIBAAKCAQEA",
}
PLAIN = [
    "reset the password of a user",
    "create an API token for a bot",
    "which tool gives me a bearer token?",
    "use basic authentication",
    "list_pull_requests in github.com/owner/repository",
    "Überweise 120 € an Müller & Söhne",
    "getUserByIdFromDatabaseOrFromTheCacheIfThereIsOne",
    "mail jane.doe@example.com about order 12345678",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS.items())
def test_a_secret_in_a_question_is_masked_and_the_rest_is_kept_SRC_9(text: str, secret: str) -> None:
    masked = mask_secrets(text)
    assert secret not in masked
    assert "[secret]" in masked
    kept = [word for word in ("login", "postgres://", "clone", "buckets", "sign", "call it") if word in text]
    assert all(word in masked for word in kept)


@pytest.mark.parametrize("text", PLAIN)
def test_a_question_without_a_secret_stays_as_it_is_SRC_9(text: str) -> None:
    assert mask_secrets(text) == text


def test_masking_takes_no_longer_than_its_length_asks_for_SRC_9() -> None:
    for text in (
        "a-" * 50_000,
        "a1" * 50_000,
        "token " * 15_000,
        "-----BEGIN PRIVATE KEY-----" * 4_000,
        "eyJ." * 25_000,
    ):
        assert len(mask_secrets(text[:2000])) <= 2000


def test_a_redacted_question_can_be_counted_and_not_read_SRC_9(settings: Any) -> None:
    assert redact("Send a mail") == redact("  send  a mail ")
    assert redact("send a mail") != redact("send a fax")
    assert "mail" not in redact("send a mail")
    settings.SEARCH_LOG = "redacted"
    assert stored_query("send a mail") == redact("send a mail")
