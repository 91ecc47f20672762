"""What bodies share that make HTTP requests: one request whose end is told by how far it came, names, addresses."""
