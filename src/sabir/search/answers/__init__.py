"""Results, facts and clarifying questions, made from what was found."""
