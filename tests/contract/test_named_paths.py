"""Documents, docstrings and comments name files of this repository: each of them exists.

How to see it fail: rename a module without looking for its name.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"(?<![\w./<{*-])((?:[\w-]+/)*[\w-]+\.(?:py|sql|md|html|svg))(?![\w*{<-])")
# Applied migrations are as they were written; the CHANGELOG tells of the past; tests name inputs.
LEFT_OUT = re.compile(r"^tests/|/migrations/|^CHANGELOG|^docs/openapi\.yaml|^static/vendor/")
# Examples of CONTRIBUTING, Django's own templates, and what lies beside the repository.
EXAMPLES = re.compile(r"NAME|NOUN|NNNN|graphql|^admin/|^(badserver|gen_ops)\.py$|^(UI|retrieval/README)\.md$")


def files() -> list[str]:
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
    return [name for name in listed if not LEFT_OUT.search(name)]


def known() -> set[str]:
    """Every way to name a file: its path, and each end of it that begins at a folder's name."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
    return {"/".join(name.split("/")[start:]) for name in listed for start in range(name.count("/") + 1)}


def missing(name: str, ends: set[str]) -> list[str]:
    """The paths in a file that are not there, each with its line."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [
        f"{name}:{number}: {path}"
        for number, line in enumerate(text.splitlines(), 1)
        for path in NAME.findall(line)
        if path not in ends and not EXAMPLES.search(path)
    ]


def test_every_file_that_a_document_or_a_comment_names_exists() -> None:
    ends = known()
    texts = [
        name for name in files() if re.search(r"\.(py|md|html|sql|toml|yml)$|^Makefile$|^Dockerfile$", name)
    ]
    found = [one for name in texts for one in missing(name, ends)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", ["tools/imports/plan.py", "docs/metrics.md", "wishes.py"])
def test_a_file_of_yesterday_would_be_noticed(path: str) -> None:
    assert NAME.findall(f"See `{path}`, which has it.") == [path]
    assert path not in known()
