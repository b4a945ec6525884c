"""The parsers with the limits that the settings give by default (tests/tools/imports/formats/test_json_document.py compares the two), for
tests that are not about limits.
"""

from __future__ import annotations

from functools import partial

from tools.imports.formats import json_document, recognise
from tools.imports.formats.specs import Limits

LIMITS = Limits(document_bytes=20_000_000, operations=20_000, description=8_000)
parse_document = partial(recognise.parse_document, limits=LIMITS)
load_document = partial(json_document.load_document, limits=LIMITS)
