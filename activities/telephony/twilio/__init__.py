"""The code behind the bodies: Twilio's REST API of 2010-04-01, Messages and Calls, and its callbacks."""
