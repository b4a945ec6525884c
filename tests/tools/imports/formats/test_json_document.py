"""From bytes to values: SYN-1's "cannot be read", the limits, and what YAML must not guess."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.conf import settings as portal_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.imports.limits import LIMITS, load_document
from tools.imports.fetching import sandbox
from tools.imports.fetching.mcp.conversation import Conversation, Redactor, SessionError
from tools.imports.formats.specs import DocumentRefused
from tools.imports.formats.texts import as_text


def value(text: str) -> Any:
    return load_document(text.encode()).value


def refusal(raw: bytes | str) -> str:
    with pytest.raises(DocumentRefused) as refused:
        load_document(raw.encode() if isinstance(raw, str) else raw, subject="a.yaml")
    return str(refused.value)


def test_scalars_of_yaml_stay_as_written_SYN_1() -> None:
    text = """
    date: 2022-01-16
    moment: 2015-02-22T20:00:45.000Z
    time: 12:30:45
    octal: 0123
    grouped: 1_000
    words: [on, off, yes, no, y, n]
    special: [.inf, -.Inf, .nan, 0x1F, 0o7, 1e999]
    numbers: [1, -2, +3, 1.5, .5, 1e3]
    constants: [true, False, null, ~, ]
    quoted: ['1', "true"]
    empty:
    """
    assert value(text) == {
        "date": "2022-01-16",
        "moment": "2015-02-22T20:00:45.000Z",
        "time": "12:30:45",
        "octal": "0123",
        "grouped": "1_000",
        "words": ["on", "off", "yes", "no", "y", "n"],
        "special": [".inf", "-.Inf", ".nan", "0x1F", "0o7", "1e999"],
        "numbers": [1, -2, 3, 1.5, 0.5, 1000.0],
        "constants": [True, False, None, None],
        "quoted": ["1", "true"],
        "empty": None,
    }


def test_keys_are_always_text_and_tags_change_nothing_SYN_1() -> None:
    assert value("200: a\ntrue: b\nnull: c\n1.10: d\n? !!timestamp 2020-01-01\n: !!binary aGk=") == {
        "200": "a",
        "true": "b",
        "null": "c",
        "1.10": "d",
        "2020-01-01": "aGk=",
    }


def test_versions_keep_their_zeros_SYN_1() -> None:
    assert value("openapi: 3.0\ninfo: {version: 1.10}") == {"openapi": "3.0", "info": {"version": "1.10"}}


def test_json_and_yaml_know_how_a_number_was_written_SYN_1() -> None:
    for raw in (b'{"version": 1.10}', b"- 1.10"):
        (found,) = load_document(raw).value.values() if raw[:1] == b"{" else load_document(raw).value
        assert (found, as_text(found)) == (1.1, "1.10")


def test_anchors_aliases_and_merge_keys_are_read_SYN_1() -> None:
    text = "base: &base {a: 1, b: 2}\none: {<<: *base, b: 3}\ntwo: {<<: [*base, {c: 4}]}\nthree: *base"
    assert value(text) == {
        "base": {"a": 1, "b": 2},
        "one": {"a": 1, "b": 3},
        "two": {"a": 1, "b": 2, "c": 4},
        "three": {"a": 1, "b": 2},
    }


def test_numbers_that_json_cannot_hold_are_kept_as_text_with_a_warning_SYN_1() -> None:
    found = load_document(b'{"a": NaN, "b": -Infinity, "c": 1e999, "d": ' + b"9" * 5_000 + b"}")
    assert found.value == {"a": "NaN", "b": "-Infinity", "c": "1e999", "d": "9" * 5_000}
    assert found.warnings == ("Numbers kept as text (NaN, infinite, too long for JSON): 4.",)


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"a\u0000\ud83d": ["\u001b[1m\r\nx\ufffe\u0085 \ud83d\ude00"]}',
        b'a\x00: ["\\e[1m\\r\\nx\xef\xbf\xbe\\x85 \xf0\x9f\x98\x80"]',
    ],
    ids=["json", "yaml"],
)
def test_one_rule_for_characters_holds_in_keys_and_texts_of_both_formats_SYN_1(raw: bytes) -> None:
    found = load_document(raw)
    assert found.value == {"a": ["[1m\nx  😀"]}
    (warning,) = found.warnings
    assert warning.startswith("Control characters and lone surrogates removed")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "a.yaml is empty."),
        (b" \n# only a comment\n", "a.yaml is empty."),
        (b"<!doctype html><p>", "a.yaml is an HTML or XML page"),
        (b"a: M\xfcller", "is not UTF-8 text: byte 0xFC at line 1, column 5"),
        ("{}".encode("utf-16"), "is UTF-16 or UTF-32 text"),
        ("{ }".encode("utf-16-le"), "is UTF-16 or UTF-32 text"),
        ("a: 1".encode("utf-16-be"), "is UTF-16 or UTF-32 text"),
        ("{}".encode("utf-32-be"), "is UTF-16 or UTF-32 text"),
        (b'{"a": [1, 2', "is cut off: the JSON ends at line 1, column 12"),
        (b'{"a": 1,\n "b": tru}}', "cannot be read as JSON: line 2, column 7"),
        (b"a:\n\tb: 1", "line 2, column 1: a tab is used to indent"),
        (b"a: [1, 2", "the text ends before the YAML is complete"),
        (b"a: b: c", "line 1, column 5"),
        (b"a: 1\n---\nb: 2", "line 2, column 1: a second YAML document begins"),
        (b'{"a": 1,\n"b": [{"x": 1, "x": 2}]}', "has the key 'x' twice in one object, again at line 2"),
        (b'{"a": 1,\n"a\\u0000": 2, "a\\u0000": 3}', "has the key 'a' twice in one object, again at line 2"),
        (b"a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' stands twice"),
        (b"[a]: 1", "keys are text"),
        (b"a: &a [*a]", "stands inside its own anchor"),
        (b"a: *b", "has no anchor before it"),
        (b"a: {<<: 1}", "the merge key '<<' takes a mapping"),
        (b"[" * 100 + b"]" * 100, "deeper than 64 levels"),
        (b"[" * 100_000, "deeper than 64 levels"),
        (b"- " * 65 + b"a", "deeper than 64 levels"),
        (b'["' + b"x" * LIMITS.document_bytes + b'"]', "the limit is 20,000,000"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason_to_act_on_SYN_1(raw: bytes, says: str) -> None:
    assert says in refusal(raw)


def test_a_document_may_have_as_many_bytes_at_every_door_S10() -> None:
    assert sandbox.limits_of_settings() == LIMITS
    assert LIMITS.document_bytes == portal_settings.DOCUMENT_MAX_BYTES == 20_000_000
    conversation = Conversation(Redactor([]), portal_settings.DOCUMENT_MAX_BYTES)
    conversation.count_bytes(b"x" * 20_000_000)
    with pytest.raises(SessionError, match="larger than 20 MB"):
        conversation.count_bytes(b"x")


def test_the_limits_of_the_settings_hold_in_the_process_that_parses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(portal_settings, "DOCUMENT_MAX_OPERATIONS", 2)
    paths = {f"/{number}": {"get": {}} for number in range(3)}
    raw = json.dumps({"openapi": "3.0.0", "info": {}, "paths": paths}).encode()
    with pytest.raises(DocumentRefused, match="has more than 2 operations"):
        sandbox.parse("openapi", raw, name="a.json")
    tools = [{"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(3)]
    with pytest.raises(DocumentRefused, match="has more than 2 tools"):
        sandbox.parse("mcp", json.dumps({"tools": tools}).encode(), name="a.json")
    monkeypatch.setattr(portal_settings, "DOCUMENT_MAX_BYTES", 20)
    with pytest.raises(DocumentRefused, match="the limit is 20"):
        sandbox.parse("openapi", raw, name="a.json")


def test_json_with_a_trailing_comma_is_read_with_a_warning_SYN_1() -> None:
    found = load_document(b'{"a": [1, 2,],}')
    assert found.value == {"a": [1, 2]}
    assert "not strict JSON (line 1, column 13" in found.warnings[0]


def test_nesting_up_to_the_limit_is_read_by_both_readers_SYN_1() -> None:
    assert load_document(b"[" * 64 + b"]" * 64).value == load_document(b"- " * 63 + b"[]").value


def grown(uses: int, times: int) -> bytes:
    """YAML whose every line holds the one before it `times` times."""
    lines = [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * times)}]" for n in range(1, uses)]
    return "\n".join(["a0: &a0 [x]", *lines]).encode()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (grown(20, times=9), "with its aliases it holds more than 2,000,000 values"),
        (
            b"a: &a " + b"x" * 1_000_000 + b"\nb: [" + b"*a," * 60 + b"]",
            "with its aliases it holds more than",
        ),
        (grown(80, times=1), "with its aliases it is nested deeper"),
        (b"[" + b"[]," * 2_500_000 + b"[]]", "holds more than 2,000,000 values"),
    ],
    ids=["doubling", "long text", "depth", "many values"],
)
def test_a_small_file_cannot_become_a_large_one_SYN_1(raw: bytes, says: str) -> None:
    started = time.process_time()
    assert says in refusal(raw)
    assert time.process_time() - started < 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
@settings(max_examples=200, deadline=None)
def test_json_comes_back_as_it_was_unless_characters_are_removed_SYN_1(written: dict[str, Any]) -> None:
    text = json.dumps(written)
    found = load_document(text.encode())  # two keys stay two, also when characters are removed
    if not found.warnings and not any(end in text for end in ("\\r", "\\u202", "\\u0085")):
        assert found.value == written


@given(st.binary(max_size=200) | st.text(alphabet="{}[]:,-&*<>!|'\"?#\n \tab1.", max_size=80).map(str.encode))
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_read_or_refused_SYN_1(raw: bytes) -> None:
    try:
        found = load_document(raw)
    except DocumentRefused:
        return
    json.dumps(found.value, allow_nan=False)


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"a": 1, "a\u0000": 2, "\u0001a": 3}',
        b'"a": 1\n"a\\0": 2\n"\\x01a": 3',
        rb'{"a\u0000": 2, "\u0001a": 3, "a": 1}',
    ],
)
def test_keys_that_differ_by_a_nul_are_two_keys_SYN_1(raw: bytes) -> None:
    loaded = load_document(raw)
    assert loaded.value == {"a": 1, "a\ufffd": 2, "a\ufffd\ufffd": 3}
    assert any("differed in control characters only" in one and "2." in one for one in loaded.warnings)


def test_a_yaml_key_with_a_nul_before_the_same_without_is_another_key_SYN_1() -> None:
    assert load_document(b'"a\\0": 2\na: 1').value == {"a": 2, "a\ufffd": 1}


def test_the_line_end_of_mainframes_is_white_space_SYN_1() -> None:
    assert load_document("a: b\x85c".encode()).value == {"a": "b c"}
    assert load_document(rb'{"a": "b\u0085c"}').value == {"a": "b c"}
    assert load_document('{"a": "b\x85c"}'.encode()).warnings == ()
