"""The suite never touches a developer's data."""

from pathlib import Path

from django.conf import settings


def test_the_data_folder_is_this_runs_own() -> None:
    for folder in (settings.DATA_DIR, settings.LAKE_DIR, settings.BROKER_DIR, settings.STATIC_ROOT):
        assert "rtmpweb-tests-" in str(folder)
        assert not Path(folder).is_relative_to(settings.BASE_DIR)


def test_a_developers_services_are_not_used() -> None:
    assert not settings.DATABASE_URL
    assert not settings.REDIS_URL
    assert not settings.SPARK_MASTER
