"""The production form as operators and users meet it: its parts are apart and show one picture."""

import pytest

from tests.production.installation import Production

pytestmark = [pytest.mark.production, pytest.mark.timeout(180)]


def test_the_parts_find_one_another(production: Production) -> None:
    status, answer = production.request("/healthz", token="")
    assert (status, answer["nodes"]) == (200, 2)
