"""What an operator is shown, and what an operator does. No Typer here: `perdure.command` has the verbs."""
