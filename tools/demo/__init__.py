"""The demo catalogue that a new portal starts with, and the questions that measure how well search finds its tools.

First run, the quality bench and the tests all read the files of this folder (README.md says where they come from).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tools.imports.syncing import documents as service

FOLDER = Path(__file__).parent
QUESTIONS = FOLDER / "questions.jsonl"
API = "petstore.yaml"
# Files of tools and the namespaces of their tools: an MCP server's is its name, as a sync of that server would have it.
TOOL_FILES = {"everyday.jsonl": "public", "filesystem.jsonl": "filesystem", "git.jsonl": "git"}


@dataclass(frozen=True, slots=True)
class Question:
    """What a user asks, and the tool_ids that serve it; those under `equivalent` serve as well as the one they stand for."""

    qid: str
    query: str
    relevant: tuple[str, ...]
    equivalent: dict[str, list[str]]

    def answers(self) -> frozenset[str]:
        """Every tool_id that counts as found."""
        return frozenset(self.relevant).union(*self.equivalent.values())


def import_demo(*, tenant_id: UUID, actor: str) -> int:
    """Imports the demo into a tenant and returns how many tools it has. Safe to repeat, like any import."""
    raw = (FOLDER / API).read_bytes()
    reports = [service.import_document(tenant_id=tenant_id, raw=raw, name=API, actor=actor)]
    for name, namespace in TOOL_FILES.items():
        raw = (FOLDER / name).read_bytes()
        reports.append(
            service.import_tools(tenant_id=tenant_id, raw=raw, name=name, actor=actor, namespace=namespace)
        )
    return sum(report.tools for report in reports)


def questions() -> list[Question]:
    """The demo's question set, in the order of its file."""
    rows = map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    return [
        Question(row["qid"], row["query"], tuple(row["relevant"]), row.get("equivalent", {})) for row in rows
    ]
