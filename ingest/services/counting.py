"""How many rows there are, as far as it matters: nobody waits until a table of history is counted to its end."""

from typing import Any

from django.db.models import QuerySet

MOST = 10_000


def up_to(rows: "QuerySet[Any]", most: int = MOST) -> int:
    """How many there are; `most` where there are as many or more."""
    return rows.order_by()[:most].count()
