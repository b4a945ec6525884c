"""The form of a new backfill. The kind of job decides what is allowed; its refusals come back by `add_refusals`."""

from __future__ import annotations

from typing import Any

from django import forms

from embeddings.backfill.scan import BackfillStatus
from tools.catalogue.embedding_jobs import ToolBackfillArguments
from tools.models import Source
from tools.web.shell.forms import PortalForm

SCOPES = (
    ("all", "All that need a vector"),
    (BackfillStatus.OUTDATED, "Outdated: of an older text, or of another model"),
    (BackfillStatus.FAILED, "Failed: all attempts were used up"),
    (BackfillStatus.BLANK, "Blank: no text when they were last looked at, or never looked at"),
    (BackfillStatus.DISABLED, "Disabled: embedding was switched off then"),
)


class BackfillForm(PortalForm):
    """Which tools, and how fast."""

    statuses = forms.ChoiceField(
        choices=SCOPES,
        label="Which embeddings",
        help_text="What is right already is left alone and costs nothing.",
    )
    source = forms.ChoiceField(required=False, label="Of which source")
    rate = ToolBackfillArguments.form_field(
        "rate",
        label="At most (tools a second)",
        widget=forms.NumberInput(attrs={"step": "any", "placeholder": "no limit"}),
        help_text="Edits go first in any case. A limit spares a provider that is paid by use.",
    )
    limit = ToolBackfillArguments.form_field(
        "limit",
        label="Stop after (tools)",
        widget=forms.NumberInput(attrs={"placeholder": "all of them"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        slugs = Source.objects.values_list("slug", flat=True)
        self.fields["source"].choices = [("", "All tools"), *((slug, slug) for slug in slugs)]  # type: ignore[attr-defined]

    def arguments(self) -> dict[str, Any]:
        """As the kind of job takes them; what was left empty is left out."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return {**given, "statuses": [given["statuses"]]}
