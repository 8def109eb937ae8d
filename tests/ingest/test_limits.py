"""The limits in time of decisions, as they are promised: other tests make them longer or shorter."""

from django.conf import settings

from ingest.consumers import decisions
from ingest.services import callback


def test_a_decision_has_two_seconds_and_a_service_that_is_asked_has_as_long() -> None:
    assert (decisions.LIMIT_S, callback.LIMIT_S) == (2.0, 2.0)


def test_a_statement_is_given_up_while_its_decision_is_waited_for() -> None:
    assert settings.DATABASE_TIMEOUT_S < decisions.LIMIT_S
