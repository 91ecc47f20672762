"""The worker process: Temporal's plugin that an `App` becomes, the checks before it takes work, replays."""
