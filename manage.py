#!/usr/bin/env python
"""Django's command line: `manage.py help` lists the commands."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    from ingest import private
    from rtmpweb import env

    env.read_or_exit()
    private.restrict_new_files()
    try:
        execute_from_command_line(sys.argv)
    except DatabaseError as error:
        from rtmpweb.database import explain

        sys.exit(explain(error))
