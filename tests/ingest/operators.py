"""Operators in the admin and at the command line."""

import io
import json
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse


def member(role: str | None) -> Client:
    """Log in as a member of the staff. None: without a role."""
    user = User.objects.create_user(username=f"user-{role}", is_staff=True)
    if role is not None:
        user.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(user)
    return client


def act(client: Client, action: str, *pks: Any, url: str) -> Any:
    return client.post(reverse(url), {"action": action, "_selected_action": list(pks)}, follow=True)


def run(*words: str) -> str:
    """Run a command and return its output."""
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def run_json(*words: str) -> Any:
    return json.loads(run(*words, "--json"))
