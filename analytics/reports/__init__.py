"""Reports: their periods, figures and words, and the forms in which they are read."""
