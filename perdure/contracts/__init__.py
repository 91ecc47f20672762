"""What an author declares: effects, look-ups, policies, outcomes, keys, states. No I/O."""
