"""Tools and questions to measure with: real ones where ../shared/retrieval lies beside the project, else made up."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

from bench.stack import ROOT

REAL = ROOT.parent / "shared" / "retrieval"
MAX_WORDS = 30
SETS = ("catalogue", "apigen", "bfcl", "mcpverse")

_VERBS = [
    "get",
    "list",
    "create",
    "update",
    "delete",
    "search",
    "export",
    "archive",
    "approve",
    "cancel",
    "translate",
    "convert",
    "schedule",
    "send",
    "validate",
]
_NOUNS = [
    "invoice",
    "ticket",
    "parcel",
    "reading",
    "badge",
    "ledger",
    "roster",
    "voucher",
    "sensor",
    "permit",
    "calendar",
    "message",
    "contract",
    "recipe",
    "playlist",
]
_SCOPES = [
    "customer",
    "warehouse",
    "clinic",
    "school",
    "airline",
    "hotel",
    "factory",
    "library",
    "museum",
    "bank",
    "farm",
    "studio",
    "port",
    "court",
    "lab",
]


def tools(count: int) -> list[dict[str, Any]]:
    """`count` tools with distinct ids, in the line format of import_tools; made up where there are no more real ones."""
    real = _real() if REAL.is_dir() else iter(())
    return list(itertools.islice(itertools.chain(real, _made_up()), count))


def questions(count: int, seed: int = 1) -> list[str]:
    """`count` distinct questions, so that no answer comes out of a cache.

    One sentence each, as agents ask (at most 30 words; the demo's have 12 tokens in the median, these 22): the time to
    embed grows with the length, and a paragraph of 160 tokens alone takes 40 ms.
    """
    draw = random.Random(seed)
    if REAL.is_dir():
        found = [
            json.loads(line)["query"]
            for name, file in (("apigen", "queries"), ("mcpverse", "queries"), ("metatool", "queries_train"))
            for line in (REAL / name / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        found = [question for question in dict.fromkeys(found) if len(question.split()) <= MAX_WORDS]
    else:
        found = [
            f"How do I {draw.choice(_VERBS)} the {draw.choice(_NOUNS)} of my {draw.choice(_SCOPES)} number {number}?"
            for number in range(count)
        ]
    draw.shuffle(found)
    return found[:count]


def _real() -> Iterator[dict[str, Any]]:
    for name in SETS:
        for line in (REAL / name / "tools.jsonl").read_text(encoding="utf-8").splitlines():
            tool = json.loads(line)
            yield {**tool, "id": f"{name}:{tool['id']}"[:200]}


def _made_up() -> Iterator[dict[str, Any]]:
    for number, (scope, noun, verb) in zip(
        itertools.count(), itertools.cycle(itertools.product(_SCOPES, _NOUNS, _VERBS)), strict=False
    ):
        yield {
            "id": f"{verb}_{scope}_{noun}_{number}",
            "name": f"{verb}_{scope}_{noun}",
            "description": f"{verb.capitalize()}s the {noun} that belongs to one {scope}, by its number and date.",
            "server": scope,
            "domain": scope,
            "tags": [noun, verb],
            "parameters": {
                "type": "object",
                "properties": {
                    f"{noun}_id": {"type": "string", "description": f"The number of the {noun}"},
                    "since": {"type": "string", "description": "The earliest date, as YYYY-MM-DD"},
                },
            },
        }
