"""Results, facts and questions back, made from what was found."""
