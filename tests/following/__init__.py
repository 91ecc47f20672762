"""A random check of the feed: writers, followers, crashes, copies, dumps, failovers, months that go; and a judge."""
