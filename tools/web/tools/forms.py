"""Forms of a tool: the fields that operators may set, with one for the description of each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from django import forms
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.http import QueryDict

from portal.tenancy.models import Sensitivity
from tools import fields
from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.models import PARAMETER_PREFIX, Lifecycle, Tool, ToolType, Visibility
from tools.models.tool import TOOL_ID_LENGTH
from tools.web.shell.forms import (
    JsonField,
    LineField,
    LinesField,
    PlainTextField,
    PortalForm,
    SlugField,
    unix_lines,
)

# Django refuses a form of more than a thousand fields (DATA_UPLOAD_MAX_NUMBER_FIELDS).
MOST_PARAMETERS = 300


class ToolForm(PortalForm):
    """The fields of any tool. `version` is the version that the author of the form saw.

    Made with the input schema of a tool (`parameters`), it has a field for the description of each parameter; of what was
    posted, `gone` holds the texts whose parameter that schema does not have. The schema itself is a field of a tool by hand only.
    """

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = LineField(max_length=200)
    description = PlainTextField(
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="What the tool does and when to use it, in the words people ask with. Markdown is rendered.",
    )
    tags = LinesField(required=False, widget=forms.Textarea(attrs={"rows": 4}), help_text="One per line.")
    use_cases = LinesField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="Questions this tool answers, one per line. They are embedded with it.",
    )
    parameters = JsonField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "class": "font-monospace"}),
        help_text="What the tool takes, as the JSON Schema of an object: type, properties and required.",
    )
    category = LineField(max_length=100, required=False)
    subcategory = LineField(max_length=100, required=False)
    routing_domain = LineField(max_length=100, required=False, label="Domain")
    semantic_namespace = LineField(max_length=100, required=False)
    tech_stack = LinesField(
        required=False, widget=forms.Textarea(attrs={"rows": 3}), help_text="One per line."
    )
    target_personas = LinesField(
        required=False, widget=forms.Textarea(attrs={"rows": 3}), help_text="Who it is for, one per line."
    )
    tool_type = forms.ChoiceField(choices=ToolType.choices, label="Type")
    lifecycle = forms.ChoiceField(choices=Lifecycle.choices)
    sensitivity = forms.ChoiceField(choices=Sensitivity.choices)
    visibility = forms.ChoiceField(choices=Visibility.choices)
    owner = LineField(max_length=200, required=False)
    annotations = JsonField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "font-monospace"}),
        help_text="The side effects of the tool, as a JSON object: readOnlyHint, destructiveHint, idempotentHint, openWorldHint.",
    )
    semantic_weight = forms.FloatField(
        initial=1.0,
        min_value=0.1,
        max_value=3.0,
        widget=forms.NumberInput(attrs={"step": "0.1"}),
        help_text="Multiplies the search score: 1 is neutral, from 0.1 to 3.",
    )
    core = forms.BooleanField(required=False, help_text="A core tool is always offered to an agent.")
    active = forms.BooleanField(required=False, help_text="An inactive tool is not offered to agents.")

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        parameters: Mapping[str, object] | None = None,
        is_imported: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(data, **kwargs)
        # A form that was opened while the tool had a source does not have it, and must not empty it.
        if is_imported or (data is not None and "parameters" not in data):
            del self.fields["parameters"]
        posted = {name: str(text) for name, text in (data or {}).items() if name.startswith(PARAMETER_PREFIX)}
        for parameter in list(parameter_descriptions(parameters or {}))[:MOST_PARAMETERS]:
            field = parameter_field(parameter)
            # A parameter that the form did not have when it was opened must not be emptied.
            if data is None or field in posted:
                self.fields[field] = PlainTextField(
                    label=parameter, widget=forms.Textarea(attrs={"rows": 2, "class": "form-control"})
                )
        self.gone = {
            unquote(field.removeprefix(PARAMETER_PREFIX).replace("=", "%")): unix_lines(text)
            for field, text in sorted(posted.items())
            if field not in self.fields
        }

    @classmethod
    def initial_of(cls, tool: Tool) -> dict[str, Any]:
        return cls.initial_from({name: getattr(tool, name) for name in {*cls.base_fields, "parameters"}})

    @classmethod
    def initial_from(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The initial values of the form for a tool with these fields, `parameters` among them."""
        texts = parameter_descriptions(values["parameters"])
        return {
            **{name: values[name] for name in cls.base_fields},
            **{parameter_field(name): text for name, text in texts.items()},
        }

    def changes(self) -> dict[str, Any]:
        """The changed fields only: an unchanged imported text must not become an override."""
        changed = {name: self.cleaned_data[name] for name in self.changed_data if name != "version"}
        texts = {
            str(self.fields[name].label): changed.pop(name)
            for name in list(changed)
            if name.startswith(PARAMETER_PREFIX)
        }
        return {**changed, "parameter_descriptions": texts} if texts else changed

    def parameter_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name.startswith(PARAMETER_PREFIX)]


def _form_field(name: str) -> forms.Field:
    """The form's field for a column of a tool that needs no words of its own."""
    column = Tool._meta.get_field(name)
    if isinstance(column, ArrayField):
        return LinesField(required=False, widget=forms.Textarea(attrs={"rows": 3}), help_text="One per line.")
    if isinstance(column, models.BooleanField):
        return forms.BooleanField(required=False)
    if isinstance(column, models.CharField):
        if column.choices:
            return forms.ChoiceField(choices=column.flatchoices)
        return LineField(max_length=column.max_length, required=not column.blank)
    return PlainTextField()


FURTHER_FIELDS = tuple(name for name in fields.OVERRIDABLE if name not in ToolForm.base_fields)
"""The overridable fields that the form does not declare; the page shows them last among "More fields"."""
ToolForm.base_fields.update({name: _form_field(name) for name in FURTHER_FIELDS})


def parameter_field(parameter: str) -> str:
    """The name of the field for a parameter's description. Characters that an element's id must not have are escaped as =20."""
    return f"{PARAMETER_PREFIX}{quote(parameter, safe='').replace('%', '=')}"


class NewToolForm(ToolForm):
    """A tool written by hand."""

    version = None  # type: ignore[assignment]  # Django's way to leave a field out: a new tool has no version yet
    tool_id = forms.RegexField(
        r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=TOOL_ID_LENGTH,
        label="Tool ID",
        help_text="How agents call it. Letters, digits, dots, dashes and underscores; it cannot be changed later.",
        error_messages={
            "invalid": "Use letters, digits, dots, dashes and underscores, starting with a letter or digit."
        },
    )
    namespace = SlugField(initial="public")
    field_order = ("name", "tool_id", "namespace")
