"""Telling others: webhooks, alerts by rules, e-mail. All of it is made from the outbox (`ingest.services.outbox`)."""
