"""Text messages and voice calls: the contracts, and their bodies for providers that speak Twilio's API."""
