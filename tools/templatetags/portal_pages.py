"""Template tags of the portal's pages: icons, times, polls, and the theme that the visitor chose."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import conditional_escape, format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from tools.web.shell.polling import poll_count, poll_seconds
from tools.web.shell.session import THEMES

register = template.Library()

_CODE = re.compile(r"`+([^`\n]+)`+")
_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (30 * 86_400, 86_400, "d"))


@register.simple_tag
def icon(name: str) -> SafeString:
    """A symbol of templates/shell/icons.svg, hidden from screen readers: a word always stands beside it."""
    return format_html(
        '<svg class="icon icon-{}" aria-hidden="true"><use href="#i-{}"></use></svg>', name, name
    )


@register.filter
def code(text: str) -> SafeString:
    """Plain text whose words in back-ticks are shown as code, and no back-tick is: a line of Markdown that is not rendered."""
    marked = _CODE.sub(r"<code>\1</code>", str(conditional_escape(text)))
    return mark_safe(marked.replace("`", ""))  # noqa: S308 - escaped just above


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """`<time>` with the distance from now in words, before or after; the exact time (UTC) in its title."""
    if moment is None:
        return "never"
    seconds = (timezone.now() - moment).total_seconds()
    distance = abs(seconds)
    words = next(
        (f"{int(distance // size)} {unit}" for limit, size, unit in _STEPS if distance < limit),
        f"{moment:%d %b %Y}",
    )
    if distance < _STEPS[-1][0]:
        words = f"{words} ago" if seconds >= 0 else f"in {words}"
    if distance < 2:
        words = "just now"
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        moment.isoformat(),
        f"{moment:%Y-%m-%d %H:%M:%S}",
        words,
    )


@register.filter
def is_past(moment: datetime) -> bool:
    return moment <= timezone.now()


@register.simple_tag(takes_context=True)
def poll(context: dict[str, Any], url: str, **query: Any) -> SafeString:
    """The attributes of an element that replaces itself by the answer of `url` with `query`, at first often, then less."""
    count = poll_count(context["request"])
    return format_html(
        'data-poll hx-get="{}{}{}" hx-trigger="every {}s, poll-now" hx-target="this" hx-swap="outerHTML"',
        url,
        "&" if "?" in url else "?",
        urlencode({"n": count + 1, **query}, doseq=True),
        poll_seconds(count),
    )


@register.simple_tag(takes_context=True)
def theme(context: dict[str, Any]) -> str:
    """`system`, `light` or `dark`, from the cookie; also on pages that are rendered without a request."""
    request = context.get("request")
    chosen = request.COOKIES.get("theme", "") if request else ""
    return chosen if chosen in THEMES else "system"
