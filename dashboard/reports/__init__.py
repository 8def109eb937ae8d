"""Reports as pages show them: the archive, the forms, the charts. What they say is made in `analytics.reports`."""
