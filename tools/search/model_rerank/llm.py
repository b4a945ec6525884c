"""A language model behind an OpenAI-compatible `POST /chat/completions` as the judge of an order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from portal.json_types import JsonValue
from portal.outbound.json_server import JsonServer, ServerError

PROMPT = Path(__file__).with_name("prompt.txt").read_text(encoding="utf-8")
MAX_TOOL_TEXT = 400
"""Characters of each tool that the model reads."""
MAX_TOKENS = 50
MAX_ANSWER = 500

# Nothing but numbers and what stands between them; a list of names with numbers before them would be read as that order.
_NUMBER = r"[0-9]{1,4}"
_BETWEEN = r"[\"'`\])}*]*(?:\s*(?:[,;>|\n]|->|→)\s*|\s+)[\"'`\[({*]*"
_NUMBERS = re.compile(rf"[\[({{\"'`*\s]*{_NUMBER}(?:{_BETWEEN}{_NUMBER})*[\"'`\])}}*.,\s]*")
_LABEL = re.compile(r"(?i)\A\W*(?:the\s+)?(?:ranking|ranked|order|answer|result)[a-z\s,\"'*]{0,30}[:=][\s*]*")


class LanguageModel:
    """The model `name` at `server`; `seconds` bound a call."""

    def __init__(self, server: JsonServer, name: str, seconds: float) -> None:
        self._server, self.name, self._seconds = server, name, seconds

    def order(self, question: str, tools: Sequence[str]) -> list[int]:
        """Indexes of the tools' texts, best first, as the model says; it may leave some out. Raises ServerError."""
        shown = "\n".join(
            f"{number}. {' '.join(text.split())[:MAX_TOOL_TEXT]}" for number, text in enumerate(tools, 1)
        )
        body = {
            "model": self.name,
            "messages": [
                {"role": "system", "content": PROMPT},
                {"role": "user", "content": f"Need: {' '.join(question.split())}\n\nTools:\n{shown}"},
            ],
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
        }
        reply = self._server.post("/chat/completions", body, seconds=self._seconds)
        numbers = read_numbers(_text_of(reply))
        found = [number - 1 for number in dict.fromkeys(numbers) if 1 <= number <= len(tools)]
        if not found:
            raise ServerError(f"{self._server.name} answered with no order of the tools.")
        return found


def _text_of(reply: JsonValue) -> str:
    """The text of a chat completion, or "" where the answer has another form."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):  # in parts
        content = "".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else ""


def read_numbers(text: str) -> list[int]:
    """The numbers of an answer that is a list of numbers, with or without brackets, fences and a label before them. Numbers among
    other words mean anything, so of such an answer none counts."""
    text = re.sub(r"(?s)<think>.*?</think>", "", text)[:MAX_ANSWER].strip()
    text = re.sub(r"\A```\w*\s*|\s*```\Z", "", text)
    text = re.sub(r"\A\{\s*\"\w{1,30}\"\s*:\s*(.*?)\}\Z", r"\1", text, flags=re.DOTALL)
    text = _LABEL.sub("", text)
    return [int(one) for one in re.findall(_NUMBER, text)] if _NUMBERS.fullmatch(text) else []
