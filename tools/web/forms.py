"""Forms of the pages. They read what a browser sends without changing what was not touched; what is allowed is decided by
tools/services.py, whose refusals come back into the form by `add_refusals`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.conf import settings

from portal.jobs.errors import InvalidArguments
from portal.tenancy.models import Sensitivity
from tools.errors import Invalid
from tools.models import DOCUMENT_KINDS, Lifecycle, Tool, ToolType, Visibility
from tools.models.source import SLUG_PATTERN
from tools.models.tool import TOOL_ID_LENGTH


class PlainTextField(forms.CharField):
    """Text kept to the letter, with the line ends of documents: a browser's CRLF must not look like an edit."""

    widget = forms.Textarea

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(strip=False, required=False, **kwargs)

    def to_python(self, value: Any) -> Any:
        return super().to_python(_lf(value)) if value else ""

    def has_changed(self, initial: Any, data: Any) -> bool:
        return _lf(initial or "") != _lf(data or "")


class LinesField(forms.CharField):
    """A list of texts, one a line."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> Any:
        lines = value if isinstance(value, list) else _lf(value or "").split("\n")
        return [line.strip() for line in lines if line.strip()]

    def validate(self, value: Any) -> None:
        if self.required and not value:
            raise forms.ValidationError(self.error_messages["required"], code="required")

    def run_validators(self, value: Any) -> None:
        """The limits of a single text mean nothing for a list."""

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(initial) != self.to_python(data))


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


class PortalForm(forms.Form):
    """A form in the portal's style."""

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

    def add_refusals(self, error: Invalid | InvalidArguments) -> None:
        """The services' sentences, each beside its field where the form has it."""
        for name, sentences in error.errors.items():
            for sentence in sentences:
                self.add_error(name if name in self.fields else None, sentence)

    def error_summary(self) -> Iterator[tuple[str, str, str]]:
        """(id of the input, label, sentence) of every error; the id is empty for the form's own."""
        for name, sentences in self.errors.items():
            for sentence in sentences:
                if name in self.fields:
                    yield self[name].auto_id, str(self[name].label), str(sentence)
                else:
                    yield "", "", str(sentence)


class ToolForm(PortalForm):
    """What a person may set on every tool. `version` is the one that they saw."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(max_length=200)
    description = PlainTextField(
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="What the tool does and when to use it, in the words people ask with. Markdown is shown as such.",
    )
    tags = LinesField(required=False, widget=forms.Textarea(attrs={"rows": 3}), help_text="One a line.")
    use_cases = LinesField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="Questions this tool answers, one a line. They are embedded with it.",
    )
    category = forms.CharField(max_length=100, required=False)
    routing_domain = forms.CharField(max_length=100, required=False, label="Domain")
    semantic_namespace = forms.CharField(max_length=100, required=False)
    tool_type = forms.ChoiceField(choices=ToolType.choices, label="Type")
    lifecycle = forms.ChoiceField(choices=Lifecycle.choices)
    sensitivity = forms.ChoiceField(choices=Sensitivity.choices)
    visibility = forms.ChoiceField(choices=Visibility.choices)
    owner = forms.CharField(max_length=200, required=False)
    semantic_weight = forms.FloatField(
        initial=1.0,
        min_value=0.1,
        max_value=3.0,
        widget=forms.NumberInput(attrs={"step": "0.1"}),
        help_text="Multiplies the search score: 1 is neutral, from 0.1 to 3.",
    )
    active = forms.BooleanField(required=False, help_text="An inactive tool is not offered to agents.")

    @classmethod
    def initial_of(cls, tool: Tool) -> dict[str, Any]:
        """The form's values for the tool as it is."""
        return {name: getattr(tool, name) for name in cls.base_fields}

    def changes(self) -> dict[str, Any]:
        """Only what was really changed: an untouched imported text must not become an override."""
        return {name: self.cleaned_data[name] for name in self.changed_data if name != "version"}


class NewToolForm(ToolForm):
    """A tool written by hand."""

    version = None  # type: ignore[assignment]
    tool_id = forms.RegexField(
        r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=TOOL_ID_LENGTH,
        label="Tool ID",
        help_text="How agents call it. Letters, digits, dots, dashes and underscores; it cannot be changed later.",
        error_messages={
            "invalid": "Use letters, digits, dots, dashes and underscores, starting with a letter or digit."
        },
    )
    namespace = forms.RegexField(
        SLUG_PATTERN,
        max_length=100,
        initial="public",
        error_messages={"invalid": "Use lower-case letters, digits, dots, dashes and underscores."},
    )
    field_order = ("name", "tool_id", "namespace")


class ImportForm(PortalForm):
    """A document from exactly one place: a file, a text, or a URL."""

    document = forms.FileField(
        required=False,
        label="File",
        widget=forms.ClearableFileInput(
            attrs={"accept": ".json,.yaml,.yml,.zip,.tar.gz,.tgz,.txt,application/json,application/yaml"}
        ),
        help_text="OpenAPI 2.0 or 3.x, the answer of an MCP server to tools/list, or LightAPI 0.1.0; JSON or YAML, up to 20 MB. Several files of one OpenAPI document as zip or tar.gz.",
    )
    url = forms.URLField(
        required=False,
        label="URL",
        max_length=2048,
        assume_scheme="https",
        widget=forms.URLInput(attrs={"placeholder": "https://…/openapi.json"}),
        help_text="A public address; redirects are not followed.",
    )
    text = PlainTextField(
        label="Text",
        widget=forms.Textarea(attrs={"rows": 6, "class": "font-monospace", "spellcheck": "false"}),
        help_text="The document itself. For more than 1 MB use a file.",
    )
    kind = forms.ChoiceField(
        choices=[("", "Recognise it"), *DOCUMENT_KINDS],
        required=False,
        label="Kind",
        help_text="Only needed where a document could be of two kinds.",
    )
    source = forms.RegexField(
        SLUG_PATTERN,
        required=False,
        max_length=100,
        label="Source name",
        help_text="The source that this document belongs to, and the namespace of its tools. From the file's name or the URL if empty.",
        error_messages={"invalid": "Use lower-case letters, digits, dots, dashes and underscores."},
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        given = [name for name in ("document", "url", "text") if cleaned.get(name)]
        if not self.errors and len(given) != 1:
            raise forms.ValidationError(
                "Give the document once: as a file, a URL or a text."
                if given
                else "Choose a file, give a URL, or paste the document."
            )
        upload = cleaned.get("document")
        if upload and upload.size > settings.DOCUMENT_MAX_BYTES:
            self.add_error(
                "document", f"The document is larger than {settings.DOCUMENT_MAX_BYTES // 1_000_000} MB."
            )
        if cleaned.get("text") and not cleaned.get("source"):
            self.add_error("source", "A pasted document has no file name: say what its source is called.")
        return cleaned
