"""What holds for the installation as a whole."""

from django.db import models


class Installation(models.Model):
    """One row, of the key `ONE`: by what its processes know that they have the same secrets. No secret is in it."""

    ONE = 1

    pepper_mark = models.CharField(max_length=64, editable=False, help_text="Made under RTMPWEB_KEY_PEPPER.")
    secret_mark = models.CharField(max_length=64, editable=False, help_text="Made under RTMPWEB_SECRET_KEY.")

    def __str__(self) -> str:
        return "this installation"
