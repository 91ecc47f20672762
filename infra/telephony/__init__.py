"""A telephony provider for tests and demos, which answers as in Twilio's documentation."""
