"""Makes text from others safe to show and to log."""
