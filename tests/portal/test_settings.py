"""The settings: declared once, listed by a command, documented by a page (SPEC: every number is a documented setting)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from portal import env
from tests.support.processes import ROOT, manage


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, env.Setting]]:
    """An empty list of declared settings, for readers that a test calls itself."""
    found: dict[str, env.Setting] = {}
    monkeypatch.setattr(env, "DECLARED", found)
    monkeypatch.setattr(env, "GENERATED", {})
    return found


def test_the_page_of_the_settings_is_what_the_code_declares(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("settings", "--markdown")
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out, (
        "write it anew: manage.py settings --markdown > docs/settings.md"
    )


def test_every_setting_has_a_meaning_and_every_number_has_bounds_that_hold_its_default() -> None:
    for setting in env.DECLARED.values():
        assert setting.section, setting.name
        assert setting.meaning.endswith(".") or setting.meaning.endswith("`"), setting.name
        if "number" in setting.kind:
            low, _, high = setting.bounds.partition(" to ")
            value = setting.value if isinstance(setting.default, str) else setting.default
            assert isinstance(value, int | float), setting.name
            assert float(low) <= value <= float(high), setting.name


def test_the_command_says_where_each_value_came_from_and_shows_no_secret() -> None:
    given = {"EMBEDDING_API_KEY": "a-key-of-a-test", "SEARCH_TOP_K": "7"}
    listed = json.loads(manage("settings", "--json", env=given))["settings"]
    found = {one["name"]: one for one in listed}
    assert (found["SEARCH_TOP_K"]["value"], found["SEARCH_TOP_K"]["default"]) == (7, 20)
    assert found["SEARCH_TOP_K"]["origin"] == "environment"
    assert found["SEARCH_RRF_K"]["origin"] == "default"
    assert found["EMBEDDING_API_KEY"]["value"] == found["SECRET_KEY"]["value"] == env.MASK
    table = manage("settings", env=given)
    password = str(env.database_login("DATABASE_URL")["PASSWORD"])
    for text in (json.dumps(listed), table):
        for secret in ("a-key-of-a-test", os.environ["SECRET_KEY"], password):
            assert secret not in text
    assert [line.split()[0] for line in table.splitlines()] == ["SETTING", *found]


def test_a_value_of_the_generated_file_stands_in_for_one_of_the_environment(
    declared: dict[str, env.Setting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        env, "GENERATED", {"SECRET_KEY": "made by make up", "EMBEDDING_API_KEY": "never read"}
    )
    monkeypatch.delenv("SECRET_KEY", raising=False)
    assert env.required_secret("SECRET_KEY", meaning="") == "made by make up"
    assert declared["SECRET_KEY"].origin is env.Origin.GENERATED
    assert env.secret("EMBEDDING_API_KEY", meaning="") == ""


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("0", "N must lie between 1 and 9, not 0."),
        ("1.5", "N must be a whole number, not 1.5."),
        ("many", "N must be a number, not 'many'."),
    ],
)
def test_a_number_out_of_its_bounds_is_refused_by_name(
    declared: dict[str, env.Setting], monkeypatch: pytest.MonkeyPatch, value: str, sentence: str
) -> None:
    monkeypatch.setenv("N", value)
    with pytest.raises(ImproperlyConfigured, match=sentence.replace(".", r"\.")):
        env.integer("N", 3, low=1, high=9, meaning="")


@pytest.mark.parametrize(
    ("given", "broker", "cache"),
    [
        ({"REDIS_URL": "redis://:pw@host:6379/4"}, "redis://:pw@host:6379/4", "redis://:pw@host:6379/5"),
        ({"REDIS_URL": "redis://host"}, "redis://host", "redis://host/1"),
        ({"REDIS_URL": "redis://a/0", "CACHE_URL": "redis://b/0"}, "redis://a/0", "redis://b/0"),
        ({"REDIS_URL": "redis://a/0", "BROKER_URL": "redis://b/0"}, "redis://b/0", "redis://a/1"),
        ({"BROKER_URL": "redis://a/0", "CACHE_URL": "redis://b/0"}, "redis://a/0", "redis://b/0"),
        ({"REDIS_URL": "redis+socket:///run/s", "CACHE_URL": "redis://b/0"}, "redis+socket:///run/s", "redis://b/0"),
    ],
)  # fmt: skip
def test_broker_and_cache_are_two_databases_of_one_server_or_two_servers(
    declared: dict[str, env.Setting], monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str], broker: str, cache: str,
) -> None:  # fmt: skip
    for name in ("REDIS_URL", "BROKER_URL", "CACHE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert env.redis_urls() == (broker, cache)
    assert "pw" not in repr(declared)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "REDIS_URL is not set"),
        ({"BROKER_URL": "redis://a/0"}, "REDIS_URL is not set"),
        ({"REDIS_URL": "redis+socket:///run/s"}, "CACHE_URL must be set"),
    ],
)
def test_a_cache_that_cannot_be_told_is_asked_for(
    declared: dict[str, env.Setting], monkeypatch: pytest.MonkeyPatch, given: dict[str, str], sentence: str
) -> None:
    for name in ("REDIS_URL", "BROKER_URL", "CACHE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured, match=sentence):
        env.redis_urls()
