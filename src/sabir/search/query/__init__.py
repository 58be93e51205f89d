"""Understanding a question: conditions, dates, prices, places, follow-ups."""
