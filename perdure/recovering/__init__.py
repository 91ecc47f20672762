"""Going on without the engine's history: open lifecycles from their record, all of them after Temporal was lost."""
