"""One order in several tools: its row is committed, a card is charged at an outside server, the state is written back.

`make bench-peers` kills each tool's worker at the same places and counts the charges at the outside server.
"""
