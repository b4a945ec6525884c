"""The search page: the tools that an agent would be offered for a question, with the score of each."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse

from portal.tenancy.context import tenant_context
from tools.search.query import Hit, SearchAnswer, SearchQuery
from tools.search.service import SearchUnavailable, search
from tools.web.embeddings.state import BADGES
from tools.web.shell.access import TenantRequest, member_page, render_part, rights_of
from tools.web.shell.badges import Badge
from tools.web.shell.errors import unavailable

SIZES = (5, 10, 20, 50)
EXAMPLES = (
    "Refund a customer's last payment",
    "Which branches does this repository have?",
    "Send a message to the team channel",
)
REASONS = {
    "semantic_search_off": "Semantic search is switched off in the settings.",
    "embedding_disabled": "No embedding provider is configured.",
    "embedding_unavailable": "The embedding provider does not answer.",
    "vectors_missing": "None of the tools that were searched has its vector yet.",
}
MODES = {"hybrid": "by meaning and keywords", "semantic": "by meaning", "keyword": "by keyword"}
MATCHES = {
    "both": ("Meaning and keywords", "check-lg"),
    "semantic": ("Meaning", "lightning-charge"),
    "keyword": ("Keywords", "search"),
}


@member_page("GET", calls_external=True)
def search_page(request: TenantRequest) -> HttpResponse:
    """The form with the answer to `?q=` below it, or its `#answer`."""
    text = " ".join(request.GET.get("q", "").split())
    size = request.GET.get("top_k", "")
    sizes = [one for one in SIZES if one <= settings.SEARCH_TOP_K_MAX] or [settings.SEARCH_TOP_K_MAX]
    top_k = int(size) if size in map(str, sizes) else sizes[:2][-1]
    correct = request.GET.get("correct") != "false"
    context: dict[str, object] = {"q": text, "top_k": top_k, "sizes": sizes, "examples": EXAMPLES}
    if len(text) > settings.SEARCH_QUERY_MAX_LENGTH:
        context["error"] = (
            f"A question has at most {settings.SEARCH_QUERY_MAX_LENGTH:,} characters; this one has {len(text):,}."
        )
    elif text:
        try:
            answer = search(rights_of(request), SearchQuery(text=text, top_k=top_k, correct=correct))
        except SearchUnavailable as error:
            return unavailable(request, str(error))
        context |= {
            "answer": answer,
            "hits": _hit_rows(answer),
            "mode": MODES[answer.mode],
            "reasons": [REASONS.get(one, one) for one in answer.degraded],
        }
    with tenant_context(request.member.tenant_id):
        return render_part(request, "search/page.html#answer", context, 422 if "error" in context else 200)


def _hit_rows(answer: SearchAnswer) -> list[tuple[Hit, int, tuple[str, str], Badge]]:
    """Each hit with its score in percent of the best score, the words and icon of its match type, and its badge."""
    best = max((hit.score for hit in answer.hits), default=0.0)
    return [
        (
            hit,
            round(100 * hit.score / best) if best > 0 else 0,
            MATCHES.get(hit.match_type, (hit.match_type, "search")),
            BADGES.get(hit.tool.get("embedding_status") or "none", BADGES["none"]),
        )
        for hit in answer.hits
    ]
