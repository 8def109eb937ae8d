"""Entries of beat's schedule that follow rows of ours."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django_celery_beat.models import CrontabSchedule, PeriodicTask, PeriodicTasks

from analytics.reports.schedule import put_periodic_task, remove_periodic_task

pytestmark = pytest.mark.django_db

NAME = "Report: the weekly one"
WEEKLY: dict[str, Any] = {"task": "analytics.tasks.scheduled_run", "args": [7], "minute": "30", "hour": "6"}


@pytest.fixture(autouse=True)
def no_other_entries() -> None:
    PeriodicTask.objects.all().delete()
    CrontabSchedule.objects.all().delete()


@pytest.mark.both_forms
def test_an_entry_is_made_once_and_brought_up_to_date() -> None:
    put_periodic_task(NAME, **WEEKLY, day_of_week="1", time_zone="Europe/Berlin")
    entry = PeriodicTask.objects.get()
    assert (entry.name, entry.task, entry.args, entry.enabled) == (NAME, WEEKLY["task"], "[7]", True)
    assert str(entry.crontab) == "30 6 * * 1 (m/h/dM/MY/d) Europe/Berlin"

    put_periodic_task(NAME, **WEEKLY, day_of_week="1", time_zone="Australia/Lord_Howe", enabled=False)
    entry = PeriodicTask.objects.get()
    assert (entry.enabled, str(entry.crontab.timezone)) == (False, "Australia/Lord_Howe")
    assert CrontabSchedule.objects.count() == 1, "the former one has gone"


@pytest.mark.both_forms
def test_one_that_is_as_it_should_be_is_left_alone() -> None:
    put_periodic_task(NAME, **WEEKLY, time_zone="America/New_York")
    changed, entry = PeriodicTasks.last_change(), PeriodicTask.objects.get()
    put_periodic_task(NAME, **WEEKLY, time_zone="America/New_York")
    assert PeriodicTasks.last_change() == changed, "beat need not read its schedule again"
    assert PeriodicTask.objects.get().date_changed == entry.date_changed


@pytest.mark.both_forms
def test_entries_of_the_same_time_share_a_crontab_which_goes_with_the_last() -> None:
    put_periodic_task(NAME, **WEEKLY)
    put_periodic_task("another", **WEEKLY)
    assert CrontabSchedule.objects.count() == 1
    remove_periodic_task(NAME)
    remove_periodic_task(NAME)
    assert list(PeriodicTask.objects.values_list("name", flat=True)) == ["another"]
    remove_periodic_task("another")
    assert not CrontabSchedule.objects.exists()


@pytest.mark.parametrize("wrong", [{"minute": "60"}, {"day_of_month": "x"}, {"time_zone": "Europe/Atlantis"}])
def test_what_can_not_be_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        put_periodic_task(NAME, **WEEKLY | wrong)
    assert not PeriodicTask.objects.exists()
