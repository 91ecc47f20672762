"""Reconciliation: finds what the normal path missed, mends what it can, and reports the rest."""
