"""Fixtures that the whole suite shares. Nothing of a test reaches the developer's own data folder."""

import os
import tempfile
from pathlib import Path

DATA = Path(os.environ.setdefault("RTMPWEB_DATA_DIR", tempfile.mkdtemp(prefix="rtmpweb-tests-")))
