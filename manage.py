#!/usr/bin/env python
"""Django's command line: `manage.py help` lists the commands."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    try:
        settings.DATA_DIR  # noqa: B018 - reads the settings: a wrong one ends here, in one sentence.
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    try:
        execute_from_command_line(sys.argv)
    except DatabaseError as error:
        from rtmpweb.database import explain

        sys.exit(explain(error))
