"""The soft match of names (SRC-1): what is kept of a tool's first word pieces, and how a question is held against it."""

from __future__ import annotations

import numpy as np
import pytest

from embeddings.providers.base import TokenStates
from embeddings.token_signs import PIECES, token_signs, unpacked
from tools.search.name_match import name_match


def tokens(spans: list[tuple[int, int]], seed: int = 0) -> TokenStates:
    states = np.random.default_rng(seed).standard_normal((len(spans), 384)).astype(np.float16)
    return TokenStates(states, np.array(spans, np.int32).reshape(-1, 2))


def test_the_signs_of_the_first_twelve_pieces_of_words_are_kept_SRC_1() -> None:
    text = "a. " * 20
    own = tokens([(3 * n + one, 3 * n + one + 1) for n in range(20) for one in (0, 1)])
    kept = token_signs(text, own)
    assert len(kept) == PIECES * 48
    [pieces], [there] = unpacked([kept], 384)
    assert (pieces == np.where(own.states[0 : 2 * PIECES : 2] > 0, 1, -1)).all(), "no dot is among them"
    assert there.all()


def test_a_short_text_has_fewer_and_one_of_marks_alone_has_none_SRC_1() -> None:
    assert len(token_signs("ab cd", tokens([(0, 2), (3, 5)]))) == 2 * 48
    assert token_signs("…!", tokens([(0, 1), (1, 2)])) == b""
    assert token_signs("", tokens([])) == b""


def test_the_tool_whose_pieces_the_question_says_is_the_best_and_the_others_lie_below_SRC_1() -> None:
    question = "ab cd ef"
    asked = tokens([(0, 2), (3, 5), (6, 8)])
    said = token_signs("ab cd", TokenStates(asked.states[:2], asked.spans[:2]))
    half = token_signs(
        "ab xy", TokenStates(np.stack([asked.states[0], tokens([(0, 2)], 9).states[0]]), asked.spans[:2])
    )
    other = token_signs("xy zw", tokens([(0, 2), (3, 5)], 5))
    match = name_match(question, asked, [other, said, half])
    assert match is not None
    assert (match[0], match[1]) == (0, 1)
    assert 0 < match[2] < 1
    # The definition, piece by piece.
    normed = asked.states.astype(float)
    normed /= np.linalg.norm(normed, axis=1, keepdims=True)

    def mean(signs: bytes) -> float:
        [pieces], [there] = unpacked([signs], 384)
        nearest = [max(float(piece @ one) / 384**0.5 for one in normed) for piece in pieces[there]]
        return sum(nearest) / len(nearest)

    raw = [mean(one) for one in (other, said, half)]
    assert match[2] == pytest.approx((raw[2] - raw[0]) / (raw[1] - raw[0]), abs=1e-5)


@pytest.mark.parametrize("missing", [None, b""])
def test_one_tool_without_signs_is_enough_to_leave_the_step_out_SRC_1(missing: bytes | None) -> None:
    asked = tokens([(0, 2)])
    signs = [token_signs("ab", tokens([(0, 2)], seed)) for seed in (1, 2)]
    assert name_match("ab", asked, signs) is not None
    assert name_match("ab", asked, [*signs, missing]) is None
    assert name_match("ab", asked, []) is None


def test_a_question_of_marks_alone_and_tools_that_are_all_alike_leave_it_out_SRC_1() -> None:
    signs = token_signs("ab", tokens([(0, 2)], 1))
    assert name_match("?!", tokens([(0, 1), (1, 2)]), [signs, signs]) is None
    assert name_match("ab", tokens([(0, 2)]), [signs, signs]) is None
