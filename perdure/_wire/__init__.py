"""Every model that is stored in a history, a memo, an outbox row or a snapshot. A change of one changes the record."""
