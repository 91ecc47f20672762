"""A telephony provider for tests and demos, that answers as the documentation of Twilio says."""
