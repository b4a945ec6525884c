"""What of a document is not carried into its tools is told in bounded words (SYN-1, S10)."""

from __future__ import annotations

from tests.support.imports.parsing import parsed
from tools.imports.formats.references import MAX_LOSSES, Losses


def test_more_kinds_of_losses_than_can_be_listed_are_counted_SYN_1() -> None:
    words = [f"word{number}" for number in range(MAX_LOSSES + 3)]
    paths = {f"/{word}": {"get": {"summary": "X", "responses": {}, word: 1}} for word in words}
    warnings = parsed(paths).warnings
    assert "Not carried over: 'word0' of operations: 1 (/word0@get)." in warnings
    assert f"Not carried over: more than {MAX_LOSSES} kinds of things; 3 more are not listed." in warnings


def test_places_beyond_a_bound_are_told_as_at_least_so_many_SYN_1() -> None:
    losses = Losses()
    for number in range(12_000):
        losses.note("'a' of schemas", f"/{number}")
    losses.note("'b' of schemas", "/x")
    assert losses.sentences() == (
        "Not carried over: 'a' of schemas: at least 10,000 (/0, /1, /2 …).",
        "Not carried over: 'b' of schemas: at least 1 (/x).",
    )


def test_of_one_part_with_many_fields_that_nobody_reads_the_first_ones_are_named_SYN_1() -> None:
    fields = {f"word{number}": 1 for number in range(5_000)}
    warnings = parsed({"/x": {"get": {"summary": "X", "responses": {}, **fields}}}).warnings
    assert len(warnings) == 11
    assert warnings[0] == "Not carried over: 'word0' of operations: 1 (/x@get)."
    assert warnings[-1] == "Not carried over: further fields of operations: 1 (/x@get)."


def test_losses_are_named_however_many_other_warnings_there_are_SYN_1() -> None:
    lost = [{"name": "a", "in": "query", "schema": {"$ref": f"#/none/{number}"}} for number in range(300)]
    paths = {"/x": {"get": {"summary": "X", "responses": {}, "word": 1, "parameters": lost}}}
    for number, one in enumerate(lost):
        one["name"] = f"a{number}"
    warnings = parsed(paths).warnings
    assert "… and 100 more." in warnings
    assert warnings[-1] == "Not carried over: 'word' of operations: 1 (/x@get)."
