"""Every filter of SearchFilters (SRC-2), by words, by exact comparison and through the index.

Proven: each filter lets none, one or all pass as it should; filters together mean all of them, checked against the
plain reading in Python; `names` only narrows; an unknown source matches nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.search import found
from tools.models import Source, Tool
from tools.search.query import FILTER_NAMES, SearchAnswer

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]
Values = tuple[str, ...]

QUESTION = "gadgets"
MODES = {"by words": (False, 10_000), "exact": (True, 10_000), "through the index": (True, 0)}

ALPHA = {
    "namespace": "crm", "tool_type": "python", "category": "weather", "tags": ["a", "b"], "source_protocol": "mcp",
    "source": "s1", "routing_domain": "home", "sensitivity": "public",
}  # fmt: skip
BETA = {
    "namespace": "public", "tool_type": "api", "category": "mail", "tags": ["a"], "source_protocol": "openapi",
    "source": "s2", "routing_domain": "office", "sensitivity": "internal",
}  # fmt: skip
GAMMA = {
    "namespace": "public", "tool_type": "bash", "category": "it's \"odd\" \\ {%s,NULL}", "tags": ["c", "a", 'A,"{'],
    "source_protocol": "manual", "source": "s3", "routing_domain": "%L", "sensitivity": "restricted",
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
    "names": (("nobody",), ("alpha", "nobody"), ("alpha", "Beta's name", "gamma")),
    "exclude": (("alpha", "Beta's name", "gamma"), ("beta", "gamma"), ("nobody",)),
}


@pytest.fixture(params=MODES.values(), ids=MODES.keys())
def mode(request: pytest.FixtureRequest, settings: Any) -> None:
    settings.SEARCH_SEMANTIC, settings.SEARCH_EXACT_LIMIT = request.param


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
    assert set(FILTERS) == set(FILTER_NAMES)


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


def passes(tool: dict[str, Any], filters: dict[str, Values]) -> bool:
    """SRC-2 as it reads."""
    for name, values in filters.items():
        named = tool["tool_id"] in values
        if name == "tags":
            right = set(values) <= set(tool["tags"])
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
    choices: dict[str, list[Any]] = {
        name: [kind[name] for kind in (ALPHA, BETA, GAMMA)] for name in FILTERS if name in ALPHA
    }
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
            elif name in {"names", "exclude"}:
                filters[name] = tuple(f"t{n}" for n in chance.sample(range(30), 15))
            else:
                filters[name] = tuple(chance.sample(choices[name], 2))
        expected = {tool["tool_id"] for tool in tools if passes(tool, filters)}
        assert set(found(asked(QUESTION, top_k=50, **filters))) == expected, filters
        matched.append(len(expected))
    assert {0, 1} < set(matched)
    assert max(matched) > 4
