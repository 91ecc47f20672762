"""The way of committed rows to Temporal."""
