"""`perdure up`: Temporal, its Web UI and the workers on one machine, as one tree of supervised processes."""
