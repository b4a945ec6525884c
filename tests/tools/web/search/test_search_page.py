from __future__ import annotations

from collections.abc import Callable

from django.test import Client, override_settings

from tools.models import Tool

HTMX = {"HX-Request": "true"}


@override_settings(SEARCH_SEMANTIC=False)
def test_SRC_5_keyword_answers_say_that_they_are_degraded(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool(name="refund_payment", description="Gives a customer their money back.")
    make_tool(name="weather", description="Tells the weather.")
    html = viewer_client.get("/search/?q=give+the+customer+money+back").content.decode()
    assert "Answered by keyword only." in html
    assert "Semantic search is switched off" in html
    assert f'href="/tools/{tool.pk}/"' in html
    assert "<summary>Score</summary>" in html
    assert "· by keyword</span>" in html


def test_SRC_5_an_answer_without_vectors_says_that_they_are_missing(
    viewer_client: Client, make_tool: Callable[..., Tool], embedder: object
) -> None:
    make_tool(name="refund_payment", description="Gives a customer their money back.")
    html = viewer_client.get("/search/?q=give+the+customer+money+back").content.decode()
    assert "Answered by keyword only." in html
    assert "None of the tools that were searched has its vector yet." in html


def test_SRC_12_a_score_without_a_keyword_says_so(
    viewer_client: Client,
    make_tool: Callable[..., Tool],
    set_embedding: Callable[..., None],
    embedder: object,
) -> None:
    set_embedding(make_tool(name="refund_payment", description="Gives a customer their money back."), "ready")
    html = viewer_client.get("/search/?q=zzqx").content.decode()
    assert "<dd>no word matched" in html
    assert "0.0000" not in html
    assert "· by meaning" in html


@override_settings(SEARCH_SEMANTIC=False)
def test_SRC_12_an_equal_name_and_what_it_adds_are_told(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="refund_payment", description="Gives a customer their money back.")
    make_tool(name="payments", description="Refund payment, refund payment.")
    html = viewer_client.get("/search/?q=refund_payment").content.decode()
    assert html.count("because the question is its name") == 1
    assert html.index("because the question is its name") < html.index(">payments<")
    assert "Best sentence" not in html
    assert "Says the name" not in html


@override_settings(SEARCH_SEMANTIC=False)
def test_UI_1_a_search_fragment_and_an_empty_answer(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool()
    html = viewer_client.get("/search/?q=zzzzqqq%00&top_k=7", headers=HTMX).content.decode()
    assert "<html" not in html
    assert "Nothing found" in html


def test_UI_1_a_question_is_not_asked_when_blank_or_too_long(viewer_client: Client) -> None:
    assert "For example" in viewer_client.get("/search/?q=+").content.decode()
    answer = viewer_client.get("/search/", {"q": "x" * 2001})
    assert answer.status_code == 422
    assert "at most 2,000 characters" in answer.content.decode()


@override_settings(SEARCH_SEMANTIC=False)
def test_a_corrected_question_says_so_and_leads_to_the_question_as_it_was_typed_SRC_13(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="send_letter", description="Delivers a letter.")
    html = viewer_client.get("/search/?q=a+lettre+%26+more&top_k=5").content.decode()
    assert "Showing results for <strong>a letter &amp; more</strong>" in html
    assert "Search instead for a lettre &amp; more</a>" in html
    link = "/search/?q=a%20lettre%20%26%20more&amp;top_k=5&amp;correct=false"
    assert f'href="{link}"' in html
    assert "send_letter" in html
    typed = viewer_client.get(link.replace("&amp;", "&")).content.decode()
    assert "Showing results for" not in typed
    assert "Nothing found" in typed
    assert "Showing results for" not in viewer_client.get("/search/?q=a+letter").content.decode()
