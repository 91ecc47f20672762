"""The clean-up: finds what the normal path missed, mends what it knows how to mend, and reports the rest."""
