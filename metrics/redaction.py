"""What of a question is stored: without its secrets, or without its words."""

from __future__ import annotations

import re

from django.conf import settings
from django.utils.crypto import salted_hmac

MASK = "[secret]"

# What names a secret, and the value behind it; then values that are secrets by their form alone.
_NAMED = re.compile(
    r"""(?ix)
    \b( (?: api|access|secret|private|auth|client )?[\s_-]?
        (?: password|passwd|passphrase|pwd|secret|token|api[\s_-]?key|access[\s_-]?key|private[\s_-]?key|authorization|credentials? )
        (?: \s*[:=]\s* (?: bearer|basic|token )? \s* ) | (?: bearer|basic )\s+ (?=\S*\d) (?=\S{8}) )
    ("[^"]*"|'[^']*'|[^\s,;"']+)
    """
)
_OF_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@]+@")
_FORMS = re.compile(
    r"""(?x)
    -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)   # PEM
    | \b eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?                                                    # JSON web tokens
    | \b (?: tp_|sk[-_]|pk_|rk_|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|npm_|hf_|pypi-|AIza|ya29\.|AKIA|ASIA ) [\w-]{10,}
    | \b (?= [\w+/-]* \d ) (?= [\w+/-]* [A-Za-z] ) [A-Za-z0-9_+/-]{32,} ={0,2}             # long, of letters and digits
    """,
    re.DOTALL,
)


def mask_secrets(text: str) -> str:
    """The text with `[secret]` in the place of what is a secret by its name, such as `password=…`, or by its form, such as a key."""
    text = _FORMS.sub(MASK, text)
    text = _OF_URL.sub(rf"\1{MASK}@", text)
    return _NAMED.sub(rf"\1{MASK}", text)


def redact(text: str) -> str:
    """A stand-in for the text that tells how many words it had. Equal texts have equal ones, so that they can be counted; without
    SECRET_KEY nobody can find the text by trying."""
    digest = salted_hmac("metrics.redaction", " ".join(text.lower().split()), algorithm="sha256").hexdigest()
    return f"[redacted {digest[:12]}, {len(text.split())} words]"


def stored_query(text: str) -> str:
    """The question as SEARCH_LOG wants it stored."""
    return redact(text) if settings.SEARCH_LOG == "redacted" else mask_secrets(text)
