"""Commands that run in the foreground, and tell an operator how it goes."""

import os

from django.core.management.base import BaseCommand


class ForegroundCommand(BaseCommand):
    def say(self, line: str) -> None:
        """Streams go on, and a stop is in order, though whoever read the output is gone."""
        try:
            self.stdout.write(line)
            self.stdout.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stdout.fileno())
            os.close(nowhere)
