"""Words alone, EMBEDDING_PROVIDER=disabled, as a way to run (SRC-13): 40 questions about 52 tools, in mixed case, with acronyms, without
their accents and in five languages. docs/search.md has the figures.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portal.tenancy.models import Tenant
from tests.support.search import ask, found
from tools.models import Tool

SET = json.loads((Path(__file__).parent / "data" / "words_alone.json").read_text(encoding="utf-8"))
FIRST = {
    "mixed case": 7, "acronyms": 6, "accents": 5, "German": 4, "French": 4, "Spanish": 4, "Russian": 4, "Chinese": 4
}  # fmt: skip


def test_forty_questions_find_their_tools_by_words_alone_SRC_13(
    tenant: Tenant, make_tool: Callable[..., Tool], settings: Any, figure: Callable[[str], None]
) -> None:
    settings.EMBEDDING_PROVIDER = "disabled"
    for tool in SET["tools"]:
        make_tool(**tool)
    assert len(SET["questions"]) == 40
    first: Counter[str] = Counter()
    missed = []
    for question in SET["questions"]:
        answer = ask(tenant.pk, question["query"], 5)
        assert (answer.mode, answer.degraded) == ("keyword", ("embedding_disabled",))
        first[question["kind"]] += found(answer)[:1] == [question["tool"]]
        if question["tool"] not in found(answer):
            missed.append(question["query"])
    figure(f"words alone: {first.total()} of 40 first, {40 - len(missed)} among five: {dict(first)}")
    assert missed == []
    assert all(first[kind] >= least for kind, least in FIRST.items()), first
