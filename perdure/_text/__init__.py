"""Text that others wrote, made fit to be shown and logged."""
