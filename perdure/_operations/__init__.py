"""What an operator is shown, and what an operator does. No Typer here: `perdure.cli` has the verbs."""
