"""The form of a new backfill. The kind of job decides what is allowed; its refusals come back by `add_refusals`."""

from __future__ import annotations

from typing import Any

from django import forms

from embeddings.backfill.scan import BackfillStatus
from tools.catalogue.embedding_jobs import ToolBackfillArguments
from tools.catalogue.visibility import seen
from tools.models import Source
from tools.web.shell.forms import PortalForm

SCOPES = (
    ("all", "All that need embedding"),
    (BackfillStatus.OUTDATED, "Outdated: made from an older text or by another model"),
    (BackfillStatus.FAILED, "Failed: all attempts were used up"),
    (BackfillStatus.BLANK, "Blank: no text at the last scan, or never scanned"),
    (BackfillStatus.DISABLED, "Disabled: embedding was switched off"),
)


def _sources() -> list[tuple[str, str]]:
    shown = seen(Source.objects.all()).values_list("slug", flat=True)
    return [("", "All tools"), *((slug, slug) for slug in shown)]


class BackfillForm(PortalForm):
    """Which tools a backfill embeds, and how fast."""

    statuses = forms.ChoiceField(
        choices=SCOPES,
        label="Which embeddings",
        help_text="Embeddings that are up to date are skipped and cost nothing.",
    )
    source = forms.ChoiceField(choices=_sources, required=False, label="Source")
    rate = ToolBackfillArguments.form_field(
        "rate",
        label="At most (tools per second)",
        widget=forms.NumberInput(attrs={"step": "any", "placeholder": "no limit"}),
        help_text="Edits always go first. A limit saves money with a provider that charges by use.",
    )
    limit = ToolBackfillArguments.form_field(
        "limit",
        label="Stop after (tools)",
        widget=forms.NumberInput(attrs={"placeholder": "all"}),
    )

    def arguments(self) -> dict[str, Any]:
        """The arguments of the job, without the fields that were left empty."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return {**given, "statuses": [given["statuses"]]}
