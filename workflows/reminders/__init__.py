"""The lifecycles of a patient and of a dose."""
