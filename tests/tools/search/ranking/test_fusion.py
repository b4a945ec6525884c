"""How the two arms become one order (SRC-1), by both fusions.

Proven: scores are ordered and bounded; each result says truly which arm found it; the operator's weight moves a tool; a
question that nothing is near to is decided by its rare words; ties break the same way every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.embeddings.providers import hash_vector
from tests.support.search import candidates, found, place, toward
from tools.models import Tool, ToolEmbedding
from tools.search import ranking
from tools.search.query import Candidate, SearchAnswer

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]

QUESTION = "deliver a letter"
WORDS = "Delivers letters."


@pytest.fixture(params=["score", "rrf"])
def fusion(request: pytest.FixtureRequest, settings: Any) -> str:
    settings.SEARCH_FUSION = request.param
    return str(request.param)


@pytest.fixture
def mixed(make_tool: MakeTool, ready_tool: MakeTool) -> None:
    ready_tool("both", QUESTION, 0.8, name="alpha", description=WORDS)
    ready_tool("both_far", QUESTION, 0.1, name="alpha", description="Beta letters.")
    ready_tool("meant", QUESTION, 0.6, name="alpha", description="Beta gamma.")
    make_tool(tool_id="worded", name="alpha", description=WORDS)


def test_scores_are_ordered_and_bounded_SRC_1(mixed: None, asked: Asked, fusion: str) -> None:
    scores = [hit.score for hit in asked(QUESTION).hits]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0
    fused = [hit.components["fused"] for hit in asked(QUESTION).hits]
    assert fused == sorted(fused, reverse=True)
    assert max(fused) <= (1.000001 if fusion == "score" else 1 / 61 + 1e-9)
    assert found(asked(QUESTION))[0] == "both"


def test_a_result_says_which_arm_found_it_SRC_1(mixed: None, asked: Asked, fusion: str) -> None:
    answer = asked(QUESTION)
    assert {hit.tool["tool_id"]: hit.match_type for hit in answer.hits} == {
        "both": "both",
        "both_far": "both",
        "meant": "semantic",
        "worded": "keyword",
    }
    assert answer.mode == "hybrid"
    for hit in answer.hits:
        parts = hit.components
        assert (parts["semantic_rank"] is not None) == (hit.match_type in {"semantic", "both"})
        assert (parts["keyword_rank"] is not None) == (hit.match_type in {"keyword", "both"})
        assert (parts["keyword"] > 0) == (hit.match_type != "semantic")
        assert parts["relevance"] == parts["fused"] / answer.hits[0].components["fused"]
    similarities = {hit.tool["tool_id"]: hit.components["similarity"] for hit in answer.hits}
    assert similarities.pop("worded") is None
    assert similarities == pytest.approx({"both": 0.8, "both_far": 0.1, "meant": 0.6}, abs=1e-5)


def test_the_score_is_what_the_formula_says_SRC_1(mixed: None) -> None:
    vector = hash_vector(QUESTION)
    by_rank = candidates(QUESTION, vector, fusion="rrf", semantic_share=0.6)
    for row in by_rank:
        ranks = ((0.6, row["semantic_rank"]), (0.4, row["keyword_rank"]))
        assert row["score"] == pytest.approx(sum(w / (60 + rank) for w, rank in ranks if rank is not None))
    by_score = candidates(QUESTION, vector, fusion="score", semantic_share=0.6)
    best = max(row["keyword_score"] for row in by_score)
    mean = (0.8 + 0.1 + 0.6) / 3
    for row in by_score:
        similarity = mean if row["similarity"] is None else row["similarity"]
        expected = 0.6 * similarity / 0.8 + 0.4 * row["keyword_score"] / best
        assert row["score"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("question", "share"), [("deliver a letter", 0.75), ("send mail", 0.25), ("mail a letter", 0.5)]
)
def test_the_more_of_the_names_a_question_spells_out_the_less_the_vectors_weigh_SRC_1(
    question: str, share: float, ready_tool: MakeTool
) -> None:
    ready_tool("mail", "x", 0.5, name="send_mail", description=WORDS)
    [row] = candidates(question, hash_vector(question))
    assert row["applied_share"] == pytest.approx(share)


def test_the_operators_weight_moves_a_tool_SRC_1(
    ready_tool: MakeTool, asked: Asked, fusion: str, settings: Any
) -> None:
    ready_tool("first", QUESTION, 0.8, name="alpha", description=WORDS)
    second = ready_tool("second", QUESTION, 0.7, name="alpha", description=WORDS)
    before = asked(QUESTION)
    assert found(before) == ["first", "second"]
    for weight, order in ((3.0, ["second", "first"]), (0.1, ["first", "second"])):
        Tool.objects.filter(pk=second.pk).update(semantic_weight=weight)
        answer = asked(QUESTION)
        assert found(answer) == order
        [moved] = [hit for hit in answer.hits if hit.tool["tool_id"] == "second"]
        assert moved.components["semantic_weight"] == weight
        parts = moved.contributions
        unweighted = parts["relevance"] + parts["quality"] + parts["recency"]
        assert moved.score == pytest.approx(weight * unweighted)
        assert unweighted == pytest.approx(before.hits[1].score)


def test_more_weight_never_moves_a_tool_down_even_where_nothing_is_near_SRC_1(
    ready_tool: MakeTool, asked: Asked
) -> None:
    ready_tool("first", "the of and", -0.1)
    ready_tool("second", "the of and", -0.2, semantic_weight=3.0)
    ready_tool("third", "the of and", -0.02, semantic_weight=0.1)
    answer = asked("the of and")
    assert found(answer) == ["second", "first", "third"]
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)


def test_a_tool_deleted_since_it_was_ranked_is_left_out_and_its_place_closed_SRC_1() -> None:
    weights = ranking.Weights(0.5, 0.35, 0.15)
    candidates = [Candidate(name, 1 / n, "both", 0.5, 1.0, n, n, 1.0) for n, name in enumerate("abc", 1)]
    ranked = ranking.rerank(list(reversed(candidates)), weights)
    assert [one.candidate for one in ranked] == candidates
    hits = ranking.hits(ranked, {"a": {"name": "a"}, "c": {"name": "c"}}, weights)
    assert [(hit.rank, hit.tool["name"]) for hit in hits] == [(1, "a"), (2, "c")]


def test_a_question_that_nothing_is_near_to_is_decided_by_its_rare_words_SRC_1(
    ready_tool: MakeTool, asked: Asked
) -> None:
    for number in range(12):
        ready_tool(f"noise_{number}", QUESTION, 0.1 - number / 100, name="alpha", description="Beta.")
    ready_tool("rare", QUESTION, 0.0, name="alpha", description=WORDS)
    answer = asked(QUESTION)
    assert max(hit.components["similarity"] for hit in answer.hits) < 0.35
    assert found(answer)[0] == "rare"


def test_a_name_that_the_question_spells_out_outvotes_a_best_cosine_below_the_threshold_SRC_1(
    ready_tool: MakeTool, asked: Asked
) -> None:
    ready_tool("named", "xyzzy", 0.0, name="xyzzy", description="Beta.")
    ready_tool("nearer", "xyzzy", 0.34, name="alpha", description="Gamma.")
    assert found(asked("xyzzy")) == ["named", "nearer"]


def test_a_near_meaning_outvotes_a_common_word_SRC_1(ready_tool: MakeTool, asked: Asked) -> None:
    for number in range(30):
        ready_tool(f"word_{number}", QUESTION, 0.1, name="alpha", description=f"Letter number {number}.")
    ready_tool("meant", QUESTION, 0.9, name="alpha", description="Beta.")
    ready_tool("meant_too", QUESTION, 0.85, name="alpha", description="Beta letter.")
    assert set(found(asked(QUESTION))[:2]) == {"meant", "meant_too"}


@pytest.mark.parametrize("question", ["the of and", "unheard words"])
def test_a_question_without_a_known_word_is_answered_by_vectors_alone_SRC_5(
    question: str, ready_tool: MakeTool, asked: Asked, fusion: str
) -> None:
    ready_tool("far", question, 0.2, name="alpha", description=WORDS)
    ready_tool("near", question, 0.5, name="alpha", description=WORDS)
    answer = asked(question)
    assert found(answer) == ["near", "far"]
    assert (answer.mode, answer.degraded) == ("semantic", ())
    assert {hit.match_type for hit in answer.hits} == {"semantic"}


def test_an_answer_without_results_is_hybrid_SRC_5(tenant: Any, asked: Asked) -> None:
    answer = asked(QUESTION)
    assert (answer.hits, answer.mode, answer.degraded) == ((), "hybrid", ())


def test_ties_are_broken_by_id_every_time_SRC_1(
    make_tool: MakeTool, asked: Asked, fusion: str, settings: Any
) -> None:
    vector = toward(QUESTION, 0.5, "all the same")
    tools = [make_tool(tool_id=f"t{n}", name="alpha", description=WORDS) for n in range(45)]
    for tool in tools:
        place(tool, vector)
    by_id = [tool.tool_id for tool in sorted(tools, key=lambda tool: str(tool.pk))]
    settings.SEARCH_SEMANTIC = False
    assert found(asked(QUESTION, top_k=10)) == by_id[:10]
    settings.SEARCH_SEMANTIC = True
    for settings.SEARCH_EXACT_LIMIT in (10_000, 0):
        assert found(asked(QUESTION, top_k=10)) == by_id[:10]
        # Where the rows lie is no tie-breaker: these move to the end of the table.
        ToolEmbedding.objects.filter(entity__in=tools[:20]).update(error="")
        assert found(asked(QUESTION, top_k=10)) == by_id[:10]
