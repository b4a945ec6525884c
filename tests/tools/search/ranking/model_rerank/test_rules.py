"""SRC-4: a model is asked only where the best hits are close, and whatever order it names, no hit is lost or doubled."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.search.model_rerank import rules
from tools.search.query import Hit


def hits(*similarities: float | None) -> list[Hit]:
    return [
        Hit(
            rank=place,
            score=1 - place / 100,
            match_type="both",
            components={"similarity": similarity},
            contributions={"relevance": 1 - place / 100},
            tool={"id": UUID(int=place)},
        )
        for place, similarity in enumerate(similarities, 1)
    ]


@pytest.mark.parametrize(
    ("similarities", "is_unsure"),
    [
        ((0.60, 0.55, 0.51), True),
        ((0.60, 0.55, 0.50), True),
        ((0.60, 0.55, 0.49), False),  # the third lies further than 0.10
        ((0.60, 0.55, 0.55, 0.10), True),  # the fourth does not matter
        ((0.90, 0.85, 0.82), True),
        ((0.91, 0.90, 0.89), False),  # the best leaves no doubt
        ((0.85, 0.95, 0.90), False),  # nor does it where statistics put another one first
        ((0.60, 0.55), True),
        ((0.60, 0.40), False),
        ((0.60,), False),
        ((), False),
        ((0.60, None, 0.55), False),  # found by words alone: nothing is known of it
        ((None, None, None), False),
    ],
)
def test_a_model_is_asked_only_where_the_best_three_are_close_and_none_is_certain_SRC_4(
    similarities: tuple[float | None, ...], is_unsure: object
) -> None:
    assert rules.is_unsure(hits(*similarities)) is is_unsure


@given(st.lists(st.integers(-3, 12), max_size=20), st.integers(0, 9))
def test_any_order_keeps_every_hit_once_and_moves_the_best_five_alone_SRC_4(
    order: list[int], count: int
) -> None:
    before = hits(*[0.5] * count)
    after = rules.reordered(before, order)
    assert sorted(hit.tool["id"] for hit in after) == [hit.tool["id"] for hit in before]
    assert [hit.tool["id"] for hit in after[5:]] == [hit.tool["id"] for hit in before[5:]]
    assert [(hit.rank, hit.score) for hit in after] == [(hit.rank, hit.score) for hit in before]
    for hit in after:
        assert sum(hit.contributions.values()) == pytest.approx(hit.score)


def test_what_the_order_names_comes_first_and_the_rest_follows_as_it_was_SRC_4() -> None:
    after = rules.reordered(hits(*[0.5] * 6), [3, 1])
    assert [hit.tool["id"].int for hit in after] == [4, 2, 1, 3, 5, 6]
