"""The shared code of bodies that make HTTP requests: one request and its progress, names, addresses."""
