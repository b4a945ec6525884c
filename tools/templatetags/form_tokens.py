"""`{% csrf_token %}` as every template of the portal and of Django's admin has it, with the tenant that the form is made for."""

from __future__ import annotations

from django import template
from django.template.base import Parser, Token
from django.template.context import Context
from django.template.defaulttags import CsrfTokenNode
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from portal.tenancy.middleware import FORM_FIELD

register = template.Library()


class FormTokens(CsrfTokenNode):
    def render(self, context: Context) -> SafeString:
        token = mark_safe(super().render(context))  # noqa: S308  # Django's own input
        member = getattr(context.get("request"), "member", None)
        if member is None:
            return token
        return format_html(
            '{}<input type="hidden" name="{}" value="{}">', token, FORM_FIELD, member.tenant_id
        )


@register.tag("csrf_token")
def form_tokens(parser: Parser, token: Token) -> FormTokens:
    return FormTokens()
