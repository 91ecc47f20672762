"""Models and contracts of dosage reminders: no I/O library is imported here, directly or indirectly."""
