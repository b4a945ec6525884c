"""Forms of sources. The services decide which addresses are allowed; their refusals come back by `add_refusals`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.template.defaultfilters import pluralize

from portal.outbound.addresses import MAX_URL, validate_url
from portal.outbound.errors import FetchError
from tools.catalogue import sources
from tools.catalogue.visibility import seen
from tools.models import DOCUMENT_KINDS, McpServer, Schedule, SourceKind
from tools.web.shell.forms import AddressInput, PlainTextField, PortalForm, SettingsForm, SlugField


def _validate_url(url: str) -> None:
    try:
        validate_url(url)
    except FetchError as refused:
        raise ValidationError(str(refused)) from None


class ImportForm(PortalForm):
    """What to import, given in exactly one way: a file, a URL, a text, or an MCP server."""

    WAYS = ("document", "url", "text", "server", "server_url")

    document = forms.FileField(
        required=False,
        label="File",
        widget=forms.ClearableFileInput(
            attrs={"accept": ".json,.yaml,.yml,.zip,.tar.gz,.tgz,.txt,application/json,application/yaml"}
        ),
        help_text=f"OpenAPI 2.0 or 3.x, the response of an MCP server to tools/list, or LightAPI 0.1.0; JSON or YAML, up to {settings.DOCUMENT_MAX_BYTES / 1_000_000:g} MB. Several files of one OpenAPI document as zip or tar.gz.",
    )
    url = forms.CharField(
        required=False,
        label="URL of a document",
        validators=[_validate_url],
        widget=AddressInput(attrs={"placeholder": "https://…/openapi.json"}),
        help_text="A public address; redirects are not followed.",
    )
    text = PlainTextField(
        label="Text",
        widget=forms.Textarea(attrs={"rows": 6, "class": "font-monospace", "spellcheck": "false"}),
        help_text=f"The document itself, up to {settings.DATA_UPLOAD_MAX_MEMORY_SIZE / 1_000_000:g} MB; use a file for more.",
    )
    server: forms.ModelChoiceField[McpServer] = forms.ModelChoiceField(
        None,
        required=False,
        label="MCP server",
        to_field_name="slug",
        empty_label="None",
        help_text="A server of the page Servers, which is asked for its tools.",
    )
    server_url = forms.CharField(
        required=False,
        label="URL of an MCP server",
        validators=[_validate_url],
        widget=AddressInput(attrs={"placeholder": "https://…/mcp"}),
        help_text="A server that needs no headers, over streamable HTTP.",
    )
    kind = forms.ChoiceField(
        choices=[("", "Detect automatically"), *DOCUMENT_KINDS],
        required=False,
        label="Kind",
        help_text="Needed only if a document could be of two kinds.",
    )
    source = SlugField(
        required=False,
        label="Source name",
        help_text="The source that this belongs to, and the namespace of its tools. If empty, it is named after the file, URL or server.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.set_rows("server", McpServer.objects.all())

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        given = [name for name in self.WAYS if cleaned.get(name)]
        if not self.errors and len(given) != 1:
            raise forms.ValidationError(
                "Give only one of them: a file, a URL, a text or an MCP server."
                if given
                else "Choose a file, give a URL, paste the document, or choose an MCP server."
            )
        upload = cleaned.get("document")
        if upload and upload.size > settings.DOCUMENT_MAX_BYTES:
            self.add_error(
                "document", f"The document is larger than {settings.DOCUMENT_MAX_BYTES / 1_000_000:g} MB."
            )
        if cleaned.get("text") and not cleaned.get("source"):
            self.add_error("source", "A pasted document has no file name: enter the name of its source.")
        return cleaned


class SourceForm(SettingsForm):
    """The settings of a source; it has only the fields that its kind uses. `overridden` is the number of tools with overrides."""

    names = sources.SETTINGS

    title = forms.CharField(
        max_length=300, required=False, help_text="If empty, the document's title is used."
    )
    url = forms.CharField(
        required=False,
        label="URL",
        max_length=MAX_URL,
        widget=AddressInput,
        help_text="Where syncs read it from: a public address; redirects are not followed.",
    )
    server: forms.ModelChoiceField[McpServer] = forms.ModelChoiceField(
        None,
        required=False,
        label="MCP server",
        empty_label="None: use the URL",
        help_text="The server that syncs read the tools from.",
    )
    schedule = forms.ChoiceField(
        choices=Schedule.choices,
        required=False,
        label="Sync schedule",
        help_text="Each scheduled sync makes a plan if something has changed.",
    )
    auto_apply = forms.BooleanField(
        required=False,
        label="Apply scheduled plans automatically",
        help_text="A plan that would remove more than a fifth of the tools still waits for you.",
    )
    sync_wins = forms.BooleanField(required=False, label="Sync wins over edits")

    def __init__(self, data: Any = None, *, row: Any, shown: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, row=row, shown=shown)
        self.overridden = seen(row.tools.filter(overrides__isnull=False)).distinct().count()
        self.fields["title"].widget.attrs["placeholder"] = row.document_title
        if row.kind == SourceKind.MCP:
            self.set_rows("server", McpServer.objects.all())
        else:
            del self.fields["server"]
        if row.kind == SourceKind.MANUAL:
            for name in ("url", "schedule", "auto_apply"):
                del self.fields[name]
        words = "Off: syncs keep overrides and show both texts. On: syncs remove overrides."
        if self.overridden:
            words += f" The next sync would remove the overrides of {self.overridden:,} tool{pluralize(self.overridden)}."
        self.fields["sync_wins"].help_text = words
