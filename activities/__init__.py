"""Effects and look-ups of the application: one file per outside system, bound to what `contracts` declares."""
