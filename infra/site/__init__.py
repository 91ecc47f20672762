"""The documentation site: its generated reference, the MkDocs hooks that add it, and the prose checks."""
