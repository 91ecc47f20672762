"""Models and contracts that workflows import; no I/O library is imported here, directly or indirectly."""
