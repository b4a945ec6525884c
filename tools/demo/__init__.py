"""The demo catalogue that a new portal starts with, and the questions that measure how well search finds its tools.

First run, the quality bench and the tests all read the files of this folder (README.md says where they come from).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from portal.tenancy.context import tenant_context
from tools.imports.formats.specs import ParsedDocument
from tools.imports.syncing.documents import IncomingDocument, parse, tool_file
from tools.imports.syncing.service import import_parsed

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


def parse_demo() -> list[tuple[IncomingDocument, ParsedDocument]]:
    """The documents of the demo, as they are imported. Call it outside of a transaction."""
    documents = [
        IncomingDocument((FOLDER / API).read_bytes(), API),
        *(
            tool_file((FOLDER / name).read_bytes(), name, namespace=namespace)
            for name, namespace in TOOL_FILES.items()
        ),
    ]
    return [(one, parse(one)) for one in documents]


def import_demo(
    documents: Sequence[tuple[IncomingDocument, ParsedDocument]], *, tenant_id: UUID, actor: str
) -> int:
    """Imports the demo's documents into a tenant and returns how many tools they have. Safe to repeat, like any import."""
    with tenant_context(tenant_id):
        reports = [import_parsed(parsed, incoming, actor=actor) for incoming, parsed in documents]
    return sum(report.tools for report in reports)


def questions() -> list[Question]:
    """The demo's question set, in the order of its file."""
    rows = map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines())
    return [
        Question(row["qid"], row["query"], tuple(row["relevant"]), row.get("equivalent", {})) for row in rows
    ]
