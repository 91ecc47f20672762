"""Every model that stands in a history, a memo, an outbox row or a snapshot: whoever changes one changes the record."""
