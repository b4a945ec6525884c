"""The form of a tool as a browser sends it."""

from __future__ import annotations

import json
from typing import Any

from tools.models import Tool
from tools.web.tools.forms import ToolForm


def form_of(tool: Tool, **changes: Any) -> dict[str, Any]:
    """What a browser sends for the untouched form, with its line ends, and then the changes."""
    fresh = Tool.objects.filter(pk=tool.pk).first() or tool
    sent = {}
    for name, value in ToolForm.initial_of(fresh).items():
        text = "\n".join(value) if isinstance(value, list) else value
        text = json.dumps(text) if isinstance(text, dict) else text
        sent[name] = text.replace("\n", "\r\n") if isinstance(text, str) else text
    sent |= changes
    return {name: value for name, value in sent.items() if value is not False}
