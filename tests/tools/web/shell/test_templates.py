"""What every template keeps, read from their texts (UI.md 3.0)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[4] / "templates"
ASKS = re.compile(r"""hx-(?:get|post)=["']""")
# An element with its attributes, which hold tags of the template language.
ELEMENT = re.compile(
    r"""<\w+(?:\{%.*?%\}|\{\{.*?\}\}|"(?:\{%.*?%\}|\{\{.*?\}\}|[^"])*"|[^<>"])*>""", re.DOTALL
)


def elements() -> Iterator[tuple[str, str]]:
    for template in sorted(TEMPLATES.rglob("*.html")):
        for element in ELEMENT.findall(template.read_text("utf-8")):
            yield str(template.relative_to(TEMPLATES)), element


def test_whatever_asks_the_server_says_itself_where_the_answer_goes_and_inherits_nothing_UI_3_0() -> None:
    asking = [(name, element) for name, element in elements() if ASKS.search(element)]
    assert len(asking) > 30
    assert [one for one in asking if "hx-target=" not in one[1]] == []
    # Where the swap of a fragment that polls was inherited, it replaced the dialog itself.
    assert '"disableInheritance": true' in (TEMPLATES / "base.html").read_text("utf-8")
