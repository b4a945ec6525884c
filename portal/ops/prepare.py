"""What a start needs: the database in its present state, the first run, a slot for the model. Run as `python -m portal.ops.prepare`.

One process for all of it, because starting Python and Django is most of their time when nothing is to do.
Each of them may be run again at any time.
"""

from __future__ import annotations

import os
import sys


def _adopt_model() -> None:
    from embeddings import slots

    try:
        if message := slots.ensure_slot():
            print(message)
    except slots.SlotError as error:
        # The portal runs all the same, with the models that it has.
        print(error, file=sys.stderr)


def _say_wrong_settings() -> None:
    """What `manage.py check` would say too. The portal runs all the same, without what is named."""
    from django.core import checks

    from tools.catalogue.mcp_allow_list import CHECKS

    for found in checks.run_checks(tags=[CHECKS]):
        print(found.msg, file=sys.stderr)


def main() -> int:
    """0, or 2 for a wrong setting and 4 for a database that does not answer, each with one sentence."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    os.environ["PORTAL_DB_ROLE"] = "admin"
    import django
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import CommandError, call_command
    from django.db import OperationalError

    try:
        django.setup()
        call_command("prepare_database")
        call_command("first_run")
        _adopt_model()
        _say_wrong_settings()
    except ImproperlyConfigured as error:
        print(error, file=sys.stderr)
        return 2
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.returncode
    except OperationalError as error:
        print(f"The database cannot be brought up to date: {' '.join(str(error).split())}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
