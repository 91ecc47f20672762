"""Whether an installation can work: one check a file, and a list of them in `checks`. None changes anything."""
