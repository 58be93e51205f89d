"""Reading a question: conditions, dates, prices, places, follow-ups."""
