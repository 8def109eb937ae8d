"""History as pages, files and the API read it: periods, a stream's figures, what happened in them, comparisons."""
