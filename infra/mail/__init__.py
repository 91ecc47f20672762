"""A mail server for tests and demos, with faults to order."""
