"""The WSGI application that gunicorn serves."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

from portal.embedded.spawn import hide_from_own_user
from portal.http import bulkhead  # noqa: F401 - before the workers are forked, who share its file

hide_from_own_user()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

application = get_wsgi_application()
