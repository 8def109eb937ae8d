"""Runs of the Spark jobs and the ledger of what they have done, as pages show them."""
