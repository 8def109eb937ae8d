"""What Redis's library raises, for who catches it. It is 11 MB with what it loads: loaded only where Redis is used."""

import sys

from django.conf import settings


def redis_errors() -> tuple[type[Exception], ...]:
    """To be asked where an error is caught (`except redis_errors()`); without Redis there are none."""
    if not settings.REDIS_URL and "redis" not in sys.modules:
        return ()
    from redis.exceptions import RedisError

    return (RedisError,)
