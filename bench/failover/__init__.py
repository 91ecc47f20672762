"""How long it takes until orders go on after a fault, and what is lost."""
