"""The worker of dosage reminders."""
