"""The steps after the fusion, asked as an agent asks (SRC-1, SRC-3): which questions take them, that they move tools as they say,
and that the components add up to the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from embeddings.token_signs import token_signs
from tests.support.embeddings.providers import word_states
from tests.support.search import found, place, toward
from tools.models import Tool, ToolEmbedding
from tools.search.query import SearchAnswer
from tools.search.question import remembered

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]

TWO = "Tell me the weather in Rome. Then deliver a letter."


@pytest.fixture(autouse=True)
def with_tokens(settings: Any) -> Iterator[None]:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.TokenEmbedder"
    remembered.clear()
    yield
    remembered.clear()


def sign(tool: Tool, text: str) -> None:
    ToolEmbedding.objects.filter(entity=tool).update(token_signs=token_signs(text, word_states(text)))


def check_sums(answer: SearchAnswer) -> None:
    for hit in answer.hits:
        parts = hit.components
        assert sum(hit.contributions.values()) == pytest.approx(hit.score)
        unweighted = sum(hit.contributions[name] for name in ("relevance", "quality", "recency"))
        assert hit.score == pytest.approx(unweighted * parts["semantic_weight"] + (parts["equal_name"] or 0))
    refined = {
        hit.components["relevance"]: hit.components["fused"]
        + (hit.components["sentences"] or 0)
        + (hit.components["name_match"] or 0)
        for hit in answer.hits
    }
    best = max(refined.values())
    assert [share * best for share in refined] == pytest.approx(list(refined.values()))
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)


def test_a_tool_that_serves_one_sentence_well_rises_over_one_that_touches_both_SRC_1(
    make_tool: MakeTool, asked: Asked, settings: Any
) -> None:
    place(make_tool(tool_id="both", name="gamma", description="Weather, rome."), toward(TWO, 0.5, "both"))
    said = word_states("Then deliver a letter.").states.astype(np.float32).sum(axis=0)
    vector = toward(TWO, 0.45, "deliver") + 1.5 * said / np.linalg.norm(said)
    place(
        make_tool(tool_id="deliver", name="gamma", description="Deliver a letter."),
        vector / np.linalg.norm(vector),
    )
    settings.SEARCH_SENTENCES = 0
    assert found(asked(TWO))[0] == "both"
    settings.SEARCH_SENTENCES = 0.5
    answer = asked(TWO)
    assert found(answer)[0] == "deliver"
    assert all(hit.components["sentences"] is not None for hit in answer.hits)
    check_sums(answer)


def test_a_question_of_one_sentence_costs_no_further_statement_SRC_11(
    ready_tool: MakeTool, asked: Asked, settings: Any
) -> None:
    settings.SEARCH_NAME_MATCH = 0
    ready_tool("mail", "deliver a letter", 0.5)
    with CaptureQueriesContext(connection) as one:
        plain = asked("deliver a letter")
    with CaptureQueriesContext(connection) as two:
        asked(TWO)
    assert [any("AS sentence(" in query["sql"] for query in asked_for) for asked_for in (one, two)] == [
        False,
        True,
    ]
    assert [any("with_words => true" in query["sql"] for query in asked_for) for asked_for in (one, two)] == [
        False,
        True,
    ]
    assert plain.hits[0].components["sentences"] is None


def test_the_tool_whose_name_is_said_in_other_words_gains_SRC_1(
    ready_tool: MakeTool, asked: Asked, settings: Any
) -> None:
    question = "post a note to grandma"
    sign(ready_tool("nearer", question, 0.5, name="alpha", description="Beta."), "nothing alike")
    sign(ready_tool("said", question, 0.49, name="alpha", description="Beta."), "post note")
    answer = asked(question)
    assert found(answer) == ["said", "nearer"]
    assert [hit.components["name_match"] for hit in answer.hits] == pytest.approx([0.15, 0])
    check_sums(answer)
    settings.SEARCH_NAME_MATCH = 0
    answer = asked(question)
    assert found(answer) == ["nearer", "said"]
    assert {hit.components["name_match"] for hit in answer.hits} == {None}


def test_no_tool_loses_for_having_no_signs_SRC_1(ready_tool: MakeTool, asked: Asked) -> None:
    question = "post a note to grandma"
    first = ready_tool("first", question, 0.5, name="alpha", description="Beta.")
    second = ready_tool("second", question, 0.49, name="alpha", description="Beta.")
    sign(second, "post note")
    answer = asked(question)
    assert found(answer) == ["first", "second"]
    assert {hit.components["name_match"] for hit in answer.hits} == {None}
    sign(first, "nothing")
    assert found(asked(question)) == ["second", "first"]


@pytest.mark.parametrize("question", ["get_weather", "Get Weather Now"])
def test_an_equal_name_is_first_whatever_the_scores_say_SRC_1(
    question: str, make_tool: MakeTool, asked: Asked
) -> None:
    for number in range(110):
        tool = make_tool(
            tool_id=f"t{number}", name="get weather now get weather", description="Get weather now. " * 3
        )
        place(tool, toward(question, 0.9, number))
    place(make_tool(tool_id="get_weather", name="x"), toward(question, -0.5, "a"))
    named = make_tool(tool_id="y", name="Get Weather Now", semantic_weight=0.1)
    place(named, toward(question, -0.5, "b"))
    answer = asked(question)
    assert found(answer)[0] == {"get_weather": "get_weather", "Get Weather Now": "y"}[question]
    assert answer.hits[0].components["equal_name"] > 0
    assert {hit.components["equal_name"] for hit in answer.hits[1:]} == {None}
    check_sums(answer)
    assert found(asked(question, exclude=(found(answer)[0],)))[0] not in {"get_weather", "y"}
