"""The Celery application. Tasks are short, take ids and dates as JSON, and never a secret."""

import os
from pathlib import Path
from typing import Any

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")

app = Celery("rtmpweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@app.on_after_configure.connect
def make_broker_folders(sender: Celery, **_: Any) -> None:
    """The filesystem broker expects the folders that it is told of; a Redis broker has none."""
    options = sender.conf.broker_transport_options
    for name in ("data_folder_in", "data_folder_out", "processed_folder", "control_folder"):
        if name in options:
            Path(options[name]).mkdir(parents=True, exist_ok=True)
