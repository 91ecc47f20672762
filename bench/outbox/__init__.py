"""What starting in the app's transaction costs, and how soon and how fast it is delivered: `python -m bench.outbox`."""
