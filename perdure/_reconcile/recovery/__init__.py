"""Recovery: continues open lifecycles from the database after Temporal has lost their histories."""
