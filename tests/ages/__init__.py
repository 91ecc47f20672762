"""Random histories of a few entities over simulated months: what was on record is in the archive or in the database."""
