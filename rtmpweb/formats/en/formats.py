"""How Django writes times (in the admin): all are in UTC, and narrow enough for a list's columns."""

DATE_FORMAT = "Y-m-d"
TIME_FORMAT = r"H:i\Z"
DATETIME_FORMAT = r"Y-m-d H:i\Z"
