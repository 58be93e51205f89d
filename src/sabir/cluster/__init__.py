"""Several nodes of one gateway: how they share agents and reach each other."""
