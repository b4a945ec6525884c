"""A question of several sentences is ranked by the whole and by its best sentence (SRC-1): where it is split, what each sentence
is made of, and the formula, computed here a second time in plain Python.
"""

from __future__ import annotations

import numpy as np
import pytest

from embeddings.providers.base import TokenStates
from tools.search import sentences
from tools.search.sentences import Evidence, Share, best_sentence, split

SHARE = Share(lowest=0.25, highest=0.75, min_similarity=0.35)


def texts(question: str) -> list[str]:
    return [question[start:end] for start, end in split(question)]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Find a hotel. Then book it!", ["Find a hotel.", "Then book it!"]),
        ("one\n\ntwo\nthree", ["one", "two", "three"]),
        ("Is it 3.5 or v1.2? yes; no", ["Is it 3.5 or v1.2?", "yes;", "no"]),
        ("天气怎么样？ 今天。 明天", ["天气怎么样？", "今天。", "明天"]),  # noqa: RUF001
        ("only one, and no more", ["only one, and no more"]),
        ("trailing. \n", ["trailing."]),
    ],
)
def test_a_question_is_split_behind_marks_that_blanks_follow_and_at_line_ends_SRC_1(
    question: str, parts: list[str]
) -> None:
    assert texts(question) == parts


def tokens(question: str, states: list[list[float]]) -> TokenStates:
    """A token a word, with the states in their order."""
    spans, at = [], 0
    for word in question.split():
        start = question.index(word, at)
        at = start + len(word)
        spans.append((start, at))
    return TokenStates(np.array(states, np.float16), np.array(spans, np.int32))


def test_a_sentence_is_the_mean_of_its_own_word_pieces_SRC_1() -> None:
    question = "send mail. pay bills now."
    found = sentences.of(question, tokens(question, [[1, 0], [0, 1], [3, 0], [0, 4], [0, 0]]))
    assert [one.text for one in found] == ["send mail.", "pay bills now."]
    assert found[0].vector == pytest.approx([0.5**0.5, 0.5**0.5])
    assert found[1].vector == pytest.approx([0.6, 0.8])


def test_one_sentence_or_one_that_says_something_is_no_reason_for_the_step_SRC_1() -> None:
    for question in ("send mail to the boss", "send mail. Thanks!", "Hello! send mail"):
        assert sentences.of(question, tokens(question, [[1, 1]] * len(question.split()))) == ()


def test_no_more_than_eight_sentences_are_looked_at_and_none_that_the_model_did_not_read_SRC_1() -> None:
    question = "pay bills. " * 20
    assert len(sentences.of(question, tokens(question, [[1, 1]] * 40))) == 8
    read = tokens(question, [[1, 1]] * 40)
    assert len(sentences.of(question, TokenStates(read.states[:6], read.spans[:6]))) == 3


EVIDENCE = Evidence(
    lexemes=[frozenset({"send", "mail"}), frozenset({"pay", "bill"})],
    cosines=np.array([[0.8, 0.1], [0.2, 0.2], [np.nan, np.nan]]),
    words=[{"mail": 2.0, "bill": 1.0}, {}, {"bill": 3.0, "pay": 1.0}],
    names=[frozenset({"mail", "send"}), frozenset({"a"}), frozenset({"bill", "payer"})],
)


def test_the_best_sentence_is_scored_as_the_formula_says_SRC_1() -> None:
    # First sentence: its best match spells out its whole name, so the vectors weigh .25. The tool without vector has the mean.
    first = [
        0.25 * 1 + 0.75 * 1,
        0.25 * 0.2 / 0.8 + 0,
        0.25 * 0.5 / 0.8 + 0,
    ]
    # Second: names {mail, send} (none) and {bill, payer} (half), so .75 - .5 * .25; the best cosine .2 is taken for .35.
    share = 0.75 - 0.5 * 0.25
    second = [
        share * 0.1 / 0.35 + (1 - share) * 1 / 4,
        share * 0.2 / 0.35,
        share * 0.15 / 0.35 + (1 - share) * 1,
    ]
    assert best_sentence(EVIDENCE, SHARE) == pytest.approx(np.maximum(first, second))


def test_a_sentence_without_a_known_word_is_judged_by_its_meaning_SRC_1() -> None:
    evidence = Evidence(
        lexemes=[frozenset({"x", "y"}), frozenset({"z", "w"})],
        cosines=np.array([[0.8, 0.1], [0.4, 0.5]]),
        words=[{}, {}],
        names=[frozenset(), frozenset()],
    )
    assert best_sentence(evidence, SHARE) == pytest.approx([1, 1])


def test_sentences_of_stop_words_leave_the_whole_question_alone_SRC_1() -> None:
    alone = Evidence(
        [frozenset({"a"}), frozenset({"b", "c"})], EVIDENCE.cosines, EVIDENCE.words, EVIDENCE.names
    )
    assert best_sentence(alone, SHARE) is None
