"""A gateway inside a FastAPI application, under ``/agents``: ``uvicorn main:app``."""

from fastapi import FastAPI

from sabir import Gateway, Turn, agent


@agent(description="Repeats what it hears")
async def echo(turn: Turn) -> str:
    return f"You said: {turn.text}"


gateway = Gateway(echo, public_url="http://127.0.0.1:8000/agents")
app = FastAPI(lifespan=gateway.lifespan)
app.mount("/agents", gateway)


@app.get("/")
def index() -> dict[str, str]:
    return {"ask": "/agents/nlip"}
