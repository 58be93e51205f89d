"""The smallest gateway: one function, every door."""

from sabir import Gateway, agent


@agent(description="Repeats what it hears")
async def echo(turn):
    return f"You said: {turn.text}"


if __name__ == "__main__":
    Gateway(echo).run()
