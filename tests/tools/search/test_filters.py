"""Every filter of SearchFilters (SRC-2), by words, by exact comparison and through the index.

Proven: each filter lets none, one or all pass as it should; filters together mean all of them, checked against the
plain reading in Python; `names` only narrows; an unknown source matches nothing.
"""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.db import DataError, connection, transaction

from tests.support.search import candidates, found
from tools.models import Source, Tool, ToolEmbedding
from tools.search.query import FILTER_NAMES, SearchAnswer

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]
Values = tuple[str, ...]

QUESTION = "gadgets"
MODES = {  # SEARCH_SEMANTIC, SEARCH_EXACT_LIMIT, SEARCH_FILTERED_LIMIT
    "by words": (False, 2500, 10_000),
    "by words, many pass": (False, 2500, 0),
    "exact": (True, 2500, 10_000),
    "by signs": (True, 0, 10_000),
    "by signs, many pass": (True, 0, 0),
}

ALPHA = {
    "namespace": "crm", "tool_type": "python", "category": "weather", "tags": ["a", "b"], "source_protocol": "mcp",
    "source": "s1", "routing_domain": "home", "sensitivity": "public", "semantic_namespace": "home.lights",
    "target_personas": ["nurse", "clerk"], "parameters": {"properties": {"city": {}, "unité": {}}}, "lifecycle": "deprecated",
}  # fmt: skip
BETA = {
    "namespace": "public", "tool_type": "api", "category": "mail", "tags": ["a"], "source_protocol": "openapi",
    "source": "s2", "routing_domain": "office", "sensitivity": "internal", "semantic_namespace": "office.mail",
    "target_personas": ["clerk"], "parameters": {"properties": {"unité": {}}}, "lifecycle": "active",
}  # fmt: skip
GAMMA = {
    "namespace": "public", "tool_type": "bash", "category": "it's \"odd\" \\ {%s,NULL}", "tags": ["c", "a", 'A,"{'],
    "source_protocol": "manual", "source": "s3", "routing_domain": "%L", "sensitivity": "restricted", "semantic_namespace": "%s",
    "target_personas": ["cook", "clerk"], "parameters": {"properties": {"unité": {}, "x": {}}}, "lifecycle": "active",
}  # fmt: skip

# What lets none, only alpha, and all pass.
FILTERS: dict[str, tuple[Values, Values, Values]] = {
    "namespace": (("nowhere",), ("crm",), ("crm", "public")),
    "tool_type": (("docker",), ("python", "mcp"), ("python", "api", "bash")),
    "category": (("Weather", ""), ("weather",), ("weather", "mail", str(GAMMA["category"]))),
    "tags": (("a", "d"), ("b", "a"), ("a",)),
    "source_protocol": (("lightapi",), ("mcp",), ("mcp", "openapi", "manual")),
    "source": (("s4",), ("s1", "s4"), ("s1", "s2", "s3")),
    "routing_domain": (("hom",), ("home",), ("home", "office", "%L")),
    "sensitivity": (("confidential",), ("public",), ("public", "internal", "restricted")),
    "semantic_namespace": (("home",), ("home.lights",), ("home.lights", "office.mail", "%s")),
    "language": (("d",), ("b", "d"), ("a", "b")),
    "personas": (("nobody",), ("nurse", "nobody"), ("clerk",)),
    "parameter": (("cit",), ("city", "cit"), ("unité",)),
    "lifecycle": (("retired",), ("deprecated",), ("active", "deprecated")),
    "names": (("nobody",), ("alpha", "nobody"), ("alpha", "Beta's name", "gamma")),
    "exclude": (("alpha", "Beta's name", "gamma"), ("beta", "gamma"), ("nobody",)),
}


@pytest.fixture(params=MODES.values(), ids=MODES.keys())
def mode(request: pytest.FixtureRequest, settings: Any) -> None:
    settings.SEARCH_SEMANTIC, settings.SEARCH_EXACT_LIMIT, settings.SEARCH_FILTERED_LIMIT = request.param


@pytest.fixture
def make(ready_tool: MakeTool) -> MakeTool:
    """Makes a gadget with these fields, `source` by its slug."""

    def made(tool_id: str, *, source: str = "", **fields: Any) -> Tool:
        tool = ready_tool(tool_id, QUESTION, 0.5, description="A gadget.", **fields)
        if source:
            one, _ = Source.objects.get_or_create(slug=source, defaults={"kind": "manual"})
            Tool.objects.filter(pk=tool.pk).update(source=one)
        return tool

    return made


@pytest.fixture
def three(make: MakeTool) -> None:
    make("alpha", **ALPHA)
    make("beta", name="Beta's name", **BETA)
    make("gamma", **GAMMA)


def test_every_filter_is_tried_here_SRC_2() -> None:
    elsewhere = {
        "max_average_latency_ms",
        "min_success_rate",
        "min_quality",
        "measured",
    }  # test_statistics.py
    assert {*FILTERS, "core", "embedding_status", *elsewhere} == set(FILTER_NAMES)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_lets_none_one_or_all_pass_SRC_2(name: str, three: None, mode: None, asked: Asked) -> None:
    none, one, every = FILTERS[name]
    assert found(asked(QUESTION, **{name: none})) == []
    assert found(asked(QUESTION, **{name: one})) == ["alpha"]
    assert set(found(asked(QUESTION, **{name: every}))) == {"alpha", "beta", "gamma"}


@pytest.mark.parametrize("name", FILTERS)
def test_no_value_at_all_lets_nothing_pass_where_a_value_is_needed_SRC_2(
    name: str, three: None, mode: None, asked: Asked
) -> None:
    passing = {"alpha", "beta", "gamma"} if name in {"tags", "exclude"} else set()
    assert set(found(asked(QUESTION, **{name: ()}))) == passing


def test_an_unknown_source_matches_nothing_and_not_everything_SRC_2(
    three: None, make: MakeTool, mode: None, asked: Asked
) -> None:
    make("without_source")
    assert found(asked(QUESTION, source=("unknown",))) == []
    assert "without_source" in found(asked(QUESTION))


def test_core_tools_and_others_are_told_apart_SRC_2(make: MakeTool, mode: None, asked: Asked) -> None:
    make("always", core=True)
    make("sometimes")
    assert found(asked(QUESTION, core=True)) == ["always"]
    assert found(asked(QUESTION, core=False)) == ["sometimes"]


def test_tools_are_found_by_the_status_of_their_embedding_SRC_2(
    make: MakeTool, mode: None, asked: Asked
) -> None:
    make("ready")
    failed = make("failed")
    ToolEmbedding.objects.filter(entity=failed).update(status="failed")
    assert found(asked(QUESTION, embedding_status=("ready", "blank"))) == ["ready"]
    assert found(asked(QUESTION, embedding_status=("failed",))) == ["failed"]
    assert found(asked(QUESTION, embedding_status=("pending",))) == []


def test_a_retired_tool_is_found_by_who_asks_for_retired_ones_SRC_2(
    make: MakeTool, mode: None, asked: Asked
) -> None:
    make("retired", lifecycle="retired")
    make("active")
    assert found(asked(QUESTION)) == ["active"]
    assert found(asked(QUESTION, lifecycle=("retired",))) == ["retired"]
    assert set(found(asked(QUESTION, lifecycle=("retired", "active")))) == {"retired", "active"}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_text_is_compared_however_unicode_composes_it_SRC_2(
    form: Any, make: MakeTool, mode: None, asked: Asked
) -> None:
    def said(text: str) -> str:
        return unicodedata.normalize(form, text)

    make(
        "composed", name=said("Café"), category=said("crème"), tags=[said("été"), "x"], namespace=said("français"),
        parameters={"properties": {said("unité"): {}}}, target_personas=[said("gérant")],
    )  # fmt: skip
    make("other")
    wanted: Any
    for wanted in ("NFC", "NFD"):
        asking: dict[str, Values] = {
            "names": ("Café",), "category": ("crème",), "tags": ("été", "x"), "namespace": ("français",), "language": ("été",),
            "parameter": ("unité",), "personas": ("gérant",),
        }  # fmt: skip
        for name, values in asking.items():
            spelt = tuple(unicodedata.normalize(wanted, value) for value in values)
            assert found(asked(QUESTION, **{name: spelt})) == ["composed"], (name, wanted)
        assert found(asked(QUESTION, exclude=(unicodedata.normalize(wanted, "Café"),))) == ["other"]


@pytest.mark.parametrize(
    "filters",
    [
        {"colour": ["red"]},
        {"tool_types": ["api"]},
        {"core": ["true"]},
        {"measured": "true"},
        {"min_quality": ["0.5"]},
        {"category": "mail"},
        {"names": {"a": 1}},
    ],
)
def test_the_database_refuses_a_filter_that_it_does_not_know_SRC_2(filters: Any, three: None) -> None:
    with pytest.raises(DataError, match="filter"), transaction.atomic():
        candidates(QUESTION, filters=json.dumps(filters))


def test_names_and_exclude_mean_tool_id_or_name_SRC_2(three: None, mode: None, asked: Asked) -> None:
    assert (
        found(asked(QUESTION, names=("beta",))) == found(asked(QUESTION, names=("Beta's name",))) == ["beta"]
    )
    assert set(found(asked(QUESTION, exclude=("Beta's name",)))) == {"alpha", "gamma"}
    assert found(asked(QUESTION, names=("beta", "alpha"), exclude=("alpha",))) == ["beta"]


def test_names_are_intersected_with_the_other_filters_SRC_2(three: None, mode: None, asked: Asked) -> None:
    assert found(asked(QUESTION, names=("alpha", "beta"), namespace=("public",))) == ["beta"]
    assert found(asked(QUESTION, names=("alpha",), namespace=("public",))) == []


def test_a_thousand_names_are_as_good_as_one_SRC_2(three: None, mode: None, asked: Asked) -> None:
    names = tuple(f"nobody_{number}" for number in range(999))
    assert found(asked(QUESTION, names=(*names, "gamma"))) == ["gamma"]


def test_what_is_left_out_makes_room_for_the_next_SRC_2(make: MakeTool, mode: None, asked: Asked) -> None:
    for number in range(9):
        make(f"t{number}")
    ranked = found(asked(QUESTION))
    assert len(ranked) == 9
    assert found(asked(QUESTION, top_k=4, exclude=tuple(ranked[:3]))) == ranked[3:7]


KEPT_IN: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
    "language": lambda tool: tool["tags"],
    "personas": lambda tool: tool["target_personas"],
    "parameter": lambda tool: tool["parameters"]["properties"],
}


def passes(tool: dict[str, Any], filters: dict[str, Values]) -> bool:
    """SRC-2 as it reads."""
    for name, values in filters.items():
        named = tool["tool_id"] in values
        if name == "tags":
            right = set(values) <= set(tool["tags"])
        elif name in KEPT_IN:
            right = bool(set(values) & set(KEPT_IN[name](tool)))
        elif name in {"names", "exclude"}:
            right = named if name == "names" else not named
        else:
            right = tool[name] in values
        if not right:
            return False
    return True


def test_filters_together_mean_all_of_them_SRC_2(make: MakeTool, mode: None, asked: Asked) -> None:
    # With this seed some of the filters match none, one and more; a new filter may want another.
    chance = random.Random(5)
    choices: dict[str, list[Any]] = {name: [kind[name] for kind in (ALPHA, BETA, GAMMA)] for name in ALPHA}
    tools = [
        {"tool_id": f"t{n}", **{name: chance.choice(values) for name, values in choices.items()}}
        for n in range(24)
    ]
    for tool in tools:
        make(**tool)
    matched = []
    for _ in range(50):
        filters: dict[str, Values] = {}
        for name in chance.sample(list(FILTERS), chance.randint(2, 4)):
            if name == "tags":
                filters[name] = tuple(chance.sample(["a", "b", "c"], chance.randint(0, 2)))
            elif name in KEPT_IN:
                filters[name] = tuple(chance.sample(["a", "b", "clerk", "cook", "city", "x", "unité"], 5))
            elif name in {"names", "exclude"}:
                filters[name] = tuple(f"t{n}" for n in chance.sample(range(30), 15))
            else:
                filters[name] = tuple(chance.sample(choices[name], 2))
        expected = {tool["tool_id"] for tool in tools if passes(tool, filters)}
        assert set(found(asked(QUESTION, top_k=50, **filters))) == expected, filters
        matched.append(len(expected))
    assert {0, 1} < set(matched)
    assert max(matched) > 4


def test_processes_of_the_version_before_still_have_their_answers_R18(three: None) -> None:
    asked = f"SELECT id FROM tools_search_candidates(query_vector => NULL::vector, query_text => '{QUESTION}', max_results => 30"
    sources = list(Source.objects.filter(slug="s1").values_list("pk", flat=True))
    for filters, given, expected in (
        ("", [], {"alpha", "beta", "gamma"}),
        (", all_tags => %s::text[], exact_limit => 10000", [["b", "a"]], {"alpha"}),
        (", source_ids => %s::uuid[], only_names => %s::text[]", [sources, ["alpha", "beta"]], {"alpha"}),
        (", except_names => %s::text[]", [["alpha"]], {"beta", "gamma"}),
        (", sensitivities => %s::text[]", [[]], set()),
    ):
        with connection.cursor() as cursor:
            cursor.execute(f"{asked}{filters})", given)
            ids = [pk for (pk,) in cursor.fetchall()]
        assert set(Tool.objects.filter(pk__in=ids).values_list("tool_id", flat=True)) == expected, filters
