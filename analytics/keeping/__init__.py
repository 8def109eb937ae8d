"""Looks after the lake: few large files in place of many small ones, nothing kept for longer than wished, and whether
lake, rollups and database still say the same."""
