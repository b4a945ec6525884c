"""Forms of the pages. They read what a browser sends without changing what was not touched; what is allowed is decided by
tools/catalogue/tools.py, whose refusals come back into the form by `add_refusals`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, cast
from uuid import UUID

from django import forms
from django.db.models import QuerySet

from portal.jobs.errors import InvalidArguments
from tools.catalogue.errors import CatalogueError, Invalid
from tools.models.server import SLUG_PATTERN

_CREDENTIALS = re.compile(r"\A(\s*(?:[a-z][a-z0-9+.-]*:)?(?://)?)[^/?#]*@", re.IGNORECASE)


def chosen_ids(texts: Iterable[str]) -> list[UUID]:
    """The texts that are UUIDs, parsed; the others are ignored."""
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def number(text: str, otherwise: int = 0) -> int:
    """The number that a browser sent in digits, at most those of a bigint; `otherwise` for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else otherwise


def without_credentials(address: str) -> str:
    """The address without a user and a password."""
    return _CREDENTIALS.sub(r"\1", address)


class AddressInput(forms.URLInput):
    """A URL. One with a user and a password is refused, and comes back without them: a page never shows a password."""

    def format_value(self, value: Any) -> str | None:
        shown = super().format_value(value)
        return without_credentials(shown) if shown else shown


class PlainTextField(forms.CharField):
    """Text with unchanged white space but for its line ends: a browser's CRLF must not look like an edit."""

    widget = forms.Textarea

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(strip=False, required=False, **kwargs)

    def to_python(self, value: Any) -> Any:
        return super().to_python(unix_lines(value)) if value else ""

    def has_changed(self, initial: Any, data: Any) -> bool:
        return unix_lines(initial or "") != unix_lines(data or "")


class LineField(forms.CharField):
    """One line, stripped. White space around an imported text does not count as an edit."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed((initial or "").strip(), data)


class LinesField(forms.Field):
    """A list of texts, one per line."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> Any:
        lines = value if isinstance(value, list) else unix_lines(value or "").split("\n")
        return [line.strip() for line in lines if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        # As the page shows it: an entry of two lines, by whatever way it came, must not look like an edit of the form.
        return bool(self.to_python(self.prepare_value(initial)) != self.to_python(data))


def unix_lines(text: str) -> str:
    """The text with LF as its only line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class SlugField(forms.RegexField):
    """A lower-case name of a namespace, source or server."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(SLUG_PATTERN, max_length=100, **kwargs)
        self.error_messages["invalid"] = "Use lower-case letters, digits, dots, dashes and underscores."


class JsonField(forms.JSONField):
    """A JSON object, indented; invalid JSON comes back as it was typed."""

    widget = forms.Textarea
    default_error_messages: ClassVar = {"invalid": "This is not valid JSON."}

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)

    def to_python(self, value: Any) -> Any:
        return {} if value in self.empty_values else super().to_python(value)


class PortalForm(forms.Form):
    """A form with the CSS classes of the portal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            widget = field.widget
            if isinstance(widget, forms.CheckboxInput):
                style = "form-check-input"
            elif isinstance(widget, forms.Select):
                style = "form-select"
            else:
                style = "form-control"
            widget.attrs["class"] = f"{widget.attrs.get('class', '')} {style}".strip()

    def set_rows(self, name: str, rows: QuerySet[Any]) -> None:
        """Offers these rows in a field. A form's class cannot: it is made before a tenant is known."""
        cast("forms.ModelChoiceField[Any]", self.fields[name]).queryset = rows

    def add_refusals(self, error: CatalogueError | InvalidArguments) -> None:
        """Adds the errors of a service, each to its field if the form has it, else to the form."""
        refused = error.errors if isinstance(error, Invalid | InvalidArguments) else {"": [str(error)]}
        for name, sentences in refused.items():
            for sentence in sentences:
                self.add_error(name if name in self.fields else None, sentence)


class SettingsForm(PortalForm):
    """The settings of a source or a server. `seen` is the number of its newest event at the time the form was opened."""

    names: ClassVar[Collection[str]]

    seen = forms.IntegerField(widget=forms.HiddenInput, required=False, min_value=0)

    def __init__(self, data: Any = None, *, row: Any = None, shown: Mapping[str, Any] | None = None) -> None:
        """`row` has its `newest_event`; None is a new one. `shown` are values to show instead of the current ones."""
        current = {**self.values_of(row), "seen": row.newest_event} if row else {}
        super().__init__(data, initial={**current, **(shown or {})})

    @classmethod
    def values_of(cls, row: Any) -> dict[str, Any]:
        return {name: getattr(row, name) for name in cls.names}

    def changes(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in self.changed_data if name != "seen"}
