"""Forms of sources and servers. What is allowed, such as which address, is decided by the services, whose refusals come back
into the form by `add_refusals`."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError

from portal.outbound.addresses import MAX_URL, validate_url
from portal.outbound.errors import FetchError
from tools.catalogue import servers, sources
from tools.catalogue.mcp_commands import allowed_commands
from tools.models import DOCUMENT_KINDS, McpServer, Schedule, Source, SourceKind
from tools.models.server import SLUG_PATTERN
from tools.web.shell.forms import LinesField, PlainTextField, PortalForm

_SLUG_ERRORS = {"invalid": "Use lower-case letters, digits, dots, dashes and underscores."}


def _may_be_asked(url: str) -> None:
    try:
        validate_url(url)
    except FetchError as refused:
        raise ValidationError(str(refused)) from None


class ImportForm(PortalForm):
    """What tools are made from, given in exactly one way: a file, a URL, a text, or an MCP server."""

    WAYS = ("document", "url", "text", "server", "server_url")

    document = forms.FileField(
        required=False,
        label="File",
        widget=forms.ClearableFileInput(
            attrs={"accept": ".json,.yaml,.yml,.zip,.tar.gz,.tgz,.txt,application/json,application/yaml"}
        ),
        help_text="OpenAPI 2.0 or 3.x, the answer of an MCP server to tools/list, or LightAPI 0.1.0; JSON or YAML, up to 20 MB. Several files of one OpenAPI document as zip or tar.gz.",
    )
    url = forms.CharField(
        required=False,
        label="URL of a document",
        validators=[_may_be_asked],
        widget=forms.URLInput(attrs={"placeholder": "https://…/openapi.json"}),
        help_text="A public address; redirects are not followed.",
    )
    text = PlainTextField(
        label="Text",
        widget=forms.Textarea(attrs={"rows": 6, "class": "font-monospace", "spellcheck": "false"}),
        help_text="The document itself. For more than 1 MB use a file.",
    )
    server: forms.ModelChoiceField[McpServer] = forms.ModelChoiceField(
        None,
        required=False,
        label="MCP server",
        to_field_name="slug",
        empty_label="None",
        help_text="One of the page Servers: it is asked for its tools.",
    )
    server_url = forms.CharField(
        required=False,
        label="URL of an MCP server",
        validators=[_may_be_asked],
        widget=forms.URLInput(attrs={"placeholder": "https://…/mcp"}),
        help_text="One that needs no headers, over streamable HTTP.",
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
        help_text="The source that this belongs to, and the namespace of its tools. If empty, it is called after the file, URL or server.",
        error_messages=_SLUG_ERRORS,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["server"].queryset = McpServer.objects.all()  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        given = [name for name in self.WAYS if cleaned.get(name)]
        if not self.errors and len(given) != 1:
            raise forms.ValidationError(
                "Give one thing: a file, a URL, a text or an MCP server."
                if given
                else "Choose a file, give a URL, paste the document, or choose an MCP server."
            )
        upload = cleaned.get("document")
        if upload and upload.size > settings.DOCUMENT_MAX_BYTES:
            self.add_error(
                "document", f"The document is larger than {settings.DOCUMENT_MAX_BYTES // 1_000_000} MB."
            )
        if cleaned.get("text") and not cleaned.get("source"):
            self.add_error("source", "A pasted document has no file name: say what its source is called.")
        return cleaned


class SettingsForm(PortalForm):
    """Settings of a row. `seen` is the number of its newest event when its author opened the form."""

    seen = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def changes(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in self.changed_data if name != "seen"}


class SourceForm(SettingsForm):
    """What operators decide about a source. A source has the fields that its kind can use."""

    title = forms.CharField(max_length=300, required=False, help_text="Empty: as the document says.")
    url = forms.CharField(
        required=False,
        label="URL",
        max_length=MAX_URL,
        widget=forms.URLInput,
        help_text="Where it is read anew: a public address; redirects are not followed.",
    )
    server: forms.ModelChoiceField[McpServer] = forms.ModelChoiceField(
        None,
        required=False,
        label="MCP server",
        empty_label="None: use the URL",
        help_text="Which server is asked for the tools.",
    )
    schedule = forms.ChoiceField(
        choices=Schedule.choices,
        required=False,
        label="Read it anew",
        help_text="Makes a plan each time something changed.",
    )
    auto_apply = forms.BooleanField(
        required=False,
        label="Apply scheduled plans by themselves",
        help_text="A plan under which more than a fifth of the tools would vanish still waits for you.",
    )
    sync_wins = forms.BooleanField(required=False, label="Sync wins over edits")

    def __init__(
        self, data: Any = None, *, source: Any, overrides: int = 0, shown: dict[str, Any] | None = None
    ) -> None:
        """`overrides`: tools of the source that people edited, of which the form says what would become. `shown`: values to
        be shown instead of those of now."""
        super().__init__(
            data, initial={**self.values_of(source), "seen": source.newest_event, **(shown or {})}
        )
        self.fields["title"].widget.attrs["placeholder"] = source.document_title
        if source.kind == SourceKind.MCP:
            self.fields["server"].queryset = McpServer.objects.all()  # type: ignore[attr-defined]
        else:
            del self.fields["server"]
        if source.kind == SourceKind.MANUAL:
            for name in ("url", "schedule", "auto_apply"):
                del self.fields[name]
        lost = (
            f" The next sync would remove the edits of {overrides:,} tool{'s' if overrides != 1 else ''}."
            if overrides
            else ""
        )
        self.fields[
            "sync_wins"
        ].help_text = f"Off: a sync leaves alone what people edited, and shows both texts. On: a sync overwrites edits.{lost}"

    @staticmethod
    def values_of(source: Source) -> dict[str, Any]:
        return {name: getattr(source, name) for name in sources.SETTINGS}


class HeadersField(LinesField):
    """Headers by name, each with the environment variable that holds its value, one a line: `Header-Name = VARIABLE`."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, dict):
            return value
        headers: dict[str, str] = {}
        for line in super().to_python(value):
            name, equals, variable = (part.strip() for part in line.partition("="))
            if not (name and equals and variable):
                raise forms.ValidationError(f"Write “{line}” as: Header-Name = ENVIRONMENT_VARIABLE_NAME.")
            headers[name] = variable
        return headers

    def prepare_value(self, value: Any) -> Any:
        return (
            "\n".join(f"{name} = {variable}" for name, variable in value.items())
            if isinstance(value, dict)
            else value
        )


class ServerForm(SettingsForm):
    """How an MCP server is reached: by a URL, or as a command that the deployment allows."""

    slug = forms.RegexField(
        SLUG_PATTERN,
        max_length=100,
        label="Name",
        help_text="Short and lower-case.",
        error_messages=_SLUG_ERRORS,
    )
    title = forms.CharField(max_length=300, required=False)
    url = forms.CharField(
        required=False,
        label="URL",
        max_length=MAX_URL,
        widget=forms.URLInput(attrs={"placeholder": "https://…/mcp"}),
        help_text="Of a server over streamable HTTP: a public address; redirects are not followed.",
    )
    command_id = forms.ChoiceField(
        required=False,
        label="Or a command",
        help_text="One of those that the deployment allows (MCP_COMMANDS_FILE). No other command can be run from here.",
    )
    headers = HeadersField(
        required=False,
        label="Headers",
        widget=forms.Textarea(
            attrs={
                "rows": 3,
                "class": "font-monospace",
                "spellcheck": "false",
            }
        ),
    )

    def __init__(self, data: Any = None, *, server: Any = None, shown: dict[str, Any] | None = None) -> None:
        """`shown`: values to be shown instead of those of now."""
        current = {**self.values_of(server), "seen": server.newest_event} if server else {}
        super().__init__(data, initial={**current, **(shown or {})})
        example = f"Authorization = {settings.MCP_SECRET_PREFIX}BILLING"
        self.fields["headers"].widget.attrs["placeholder"] = example
        self.fields["headers"].help_text = (
            "One a line: Header-Name = ENVIRONMENT_VARIABLE_NAME. Names only, never a secret: the value is read from the "
            f"portal's environment when the server is asked. The variable's name begins with {settings.MCP_SECRET_PREFIX}."
        )
        allowed, self.commands_error = _allowed_commands()
        if server and server.command_id and server.command_id not in allowed:
            allowed = [server.command_id, *allowed]
        self.fields["command_id"].choices = [("", "None"), *((one, one) for one in allowed)]  # type: ignore[attr-defined]

    @staticmethod
    def values_of(server: McpServer) -> dict[str, Any]:
        return {name: getattr(server, name) for name in servers.EDITABLE_FIELDS}


def _allowed_commands() -> tuple[list[str], str]:
    """The ids of the allow list, and what is wrong with the list."""
    try:
        return sorted(allowed_commands()), ""
    except FetchError as error:
        return [], str(error)
