"""The lake: where figures are and how they are read, what is set aside, its hourly maintenance, and its check."""
