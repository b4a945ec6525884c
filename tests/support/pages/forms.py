"""The forms of a page as a browser would send them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from urllib.parse import urljoin

Fields = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Form:
    """A form that is sent by POST: its address, the names and values of its fields, its buttons with a name of their own, which of
    the fields a person types into, and what its select boxes offer."""

    address: str
    fields: Fields = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    offered: Fields = field(default_factory=dict)

    def given(self, **fields: str) -> Form:
        return replace(self, fields={**self.fields, **{name: [value] for name, value in fields.items()}})


def forms_of(html: str, page: str) -> list[Form]:
    """The forms of the page of this address."""
    reader = _Reader(page)
    reader.feed(html)
    return reader.forms


class _Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page
        self._form: Form | None = None
        self._select = self._textarea = ""
        self._typed, self._is_multiple = "", False
        self.forms: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name, value = given.get("name", ""), given.get("value", "")
        if tag == "form" and given.get("method", "").lower() == "post":
            self._form = Form(urljoin(self._page, given.get("action", "")))
            self.forms.append(self._form)
        if self._form is None:
            return
        kind = given.get("type", "")
        if tag == "select":
            self._select, self._is_multiple = name, "multiple" in given
        elif tag == "option" and self._select:
            self._form.offered.setdefault(self._select, []).append(value)
            if "selected" in given:
                self._form.fields.setdefault(self._select, []).append(value)
        elif tag == "textarea":
            self._textarea, self._typed = name, ""
        elif tag == "button" or (tag == "input" and kind == "submit"):
            self._form.buttons.extend([(name, value)] if name else [])
        elif tag == "input" and name and not (kind in {"checkbox", "radio"} and "checked" not in given):
            self._form.fields.setdefault(name, []).append(value)
            self._form.texts.update([name] if kind in {"", "text", "url", "password"} else [])

    def handle_data(self, data: str) -> None:
        self._typed += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._form is not None:
            self._form.fields[self._textarea] = [self._typed.removeprefix("\n").removeprefix("\r\n")]
            self._form.texts.add(self._textarea)
        elif tag == "select":
            offered = self._form.offered.get(self._select) if self._form is not None else None
            if self._form is not None and offered and not self._is_multiple:
                self._form.fields.setdefault(self._select, offered[:1])
            self._select = ""
        elif tag == "form":
            self._form = None


def ways_to_send(form: Form, most: int = 4) -> Iterator[Form]:
    """As it is, with each of its buttons, and with each of the first few other options of its select boxes."""
    yield form
    others = {
        name: [value for value in values if [value] != form.fields.get(name)][:most]
        for name, values in form.offered.items()
    }
    for name, value in [
        *form.buttons,
        *((name, value) for name, values in others.items() for value in values),
    ]:
        yield form.given(**{name: value})
