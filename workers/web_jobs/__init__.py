"""The worker of web jobs: the app, the receiver of callbacks, and the commands."""
