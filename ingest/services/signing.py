"""How what is told or asked of other services is signed, so that they know it for ours.

`X-Rtmpweb-Signature: t=SECONDS,v1=HEX`: HMAC-SHA-256 under the shared secret of the time, a full stop and the body.
"""

import hashlib
import hmac

HEADER = "X-Rtmpweb-Signature"


def signature(secret: str, body: bytes, at: float) -> str:
    """The header's value. `at`: seconds since the epoch, so that receivers can refuse what is old."""
    seconds = int(at)
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"
