"""The WSGI application that gunicorn serves."""

from __future__ import annotations

import os
from typing import Any

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from portal.embedded.spawn import hide_from_own_user
from portal.http import bulkhead  # noqa: F401 - before the workers are forked, who share its file

hide_from_own_user()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

_django = get_wsgi_application()
# Imports every view now, once for all workers; the first request of each would wait for it.
_ = get_resolver().url_patterns


def application(environ: dict[str, Any], start_response: Any) -> Any:
    """Django, which may answer without having read the body. It is read to its end here: the socket would else be closed with
    bytes in it, which takes the answer from the proxy. They are bounded, and have arrived already."""
    answer = _django(environ, start_response)
    while environ["wsgi.input"].read(65_536):
        pass
    return answer
