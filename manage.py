#!/usr/bin/env python
"""Django's command line: `manage.py help` lists the commands."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    from ingest.services import data_folder
    from rtmpweb import env

    env.read_or_exit()
    data_folder.restrict_new_files()
    try:
        execute_from_command_line(sys.argv)
    except DatabaseError as error:
        from rtmpweb.checks import explain_database_error

        sys.exit(explain_database_error(error))
