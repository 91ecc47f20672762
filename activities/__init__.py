"""Effects and look-ups of the application, one file per outside system; `contracts` declares them."""
