"""What of a document is not carried into its tools is told in bounded words (SYN-1, S10)."""

from __future__ import annotations

from tests.support.imports.parsing import parsed
from tools.imports.formats.references import MAX_LOSSES, Losses, Warnings


def test_more_kinds_of_losses_than_can_be_listed_are_counted_SYN_1() -> None:
    fields = {f"word{number}": 1 for number in range(MAX_LOSSES + 3)}
    warnings = parsed({"/x": {"get": {"summary": "X", "responses": {}, **fields}}}).warnings
    assert "Not carried over: 'word0' of operations: 1 (/x@get)." in warnings
    assert f"Not carried over: more than {MAX_LOSSES} kinds of things; 3 more are not listed." in warnings


def test_places_beyond_a_bound_are_told_as_at_least_so_many_SYN_1() -> None:
    losses, warnings = Losses(), Warnings()
    for number in range(12_000):
        losses.note("'a' of schemas", f"/{number}")
    losses.note("'b' of schemas", "/x")
    losses.tell(warnings)
    assert warnings.all() == (
        "Not carried over: 'a' of schemas: at least 10,000 (/0, /1, /2 …).",
        "Not carried over: 'b' of schemas: at least 1 (/x).",
    )
