"""The form of an MCP server. The services decide which addresses are allowed; their refusals come back by `add_refusals`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.conf import settings

from portal.outbound.addresses import MAX_URL
from portal.outbound.errors import FetchError
from tools.catalogue import servers
from tools.catalogue.mcp_allow_list import commands_of, secrets_of, tenant_slug
from tools.web.shell.forms import AddressInput, LinesField, SettingsForm, SlugField


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
        if isinstance(value, dict):
            return "\n".join(f"{name} = {variable}" for name, variable in value.items())
        return value


class ServerForm(SettingsForm):
    """The connection of an MCP server: a URL, or a command that the deployment allows the tenant."""

    names = servers.EDITABLE_FIELDS

    slug = SlugField(
        label="Name",
        help_text="Short and lower-case.",
    )
    title = forms.CharField(max_length=300, required=False)
    url = forms.CharField(
        required=False,
        label="URL",
        max_length=MAX_URL,
        widget=AddressInput(attrs={"placeholder": "https://…/mcp"}),
        help_text="A server over streamable HTTP at a public address; redirects are not followed.",
    )
    command_id = forms.ChoiceField(
        required=False,
        label="Or a command",
        help_text="A command that the deployment allows this tenant (MCP_COMMANDS_FILE). No other command can be run from here.",
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

    def __init__(self, data: Any = None, *, row: Any = None, shown: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, row=row, shown=shown)
        allowed, secrets, self.commands_error = [], [], ""
        try:
            tenant = tenant_slug()
            allowed, secrets = sorted(commands_of(tenant)), secrets_of(tenant)
        except FetchError as error:  # of a broken list
            self.commands_error = str(error)
        example = secrets[0] if secrets else f"{settings.MCP_SECRET_PREFIX}BILLING"
        self.fields["headers"].widget.attrs["placeholder"] = f"Authorization = {example}"
        self.fields["headers"].help_text = (
            "One per line: Header-Name = ENVIRONMENT_VARIABLE_NAME. Names only, never a secret: the value is read from the "
            f"portal's environment when the server is asked. The variable's name begins with {settings.MCP_SECRET_PREFIX}. "
            f"This tenant may use: {', '.join(secrets) or 'none yet'}."
        )
        if row and row.command_id and row.command_id not in allowed:
            allowed = [row.command_id, *allowed]
        commands = cast(forms.ChoiceField, self.fields["command_id"])
        commands.choices = [("", "None"), *((one, one) for one in allowed)]
