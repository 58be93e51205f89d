"""A proxy in front of a service with its own protocol: NLIP in front, a REST service behind (Mode A, DEP-PROXY).

The service knows nothing of NLIP. The proxy reads a question, calls the service in its own protocol, and answers in
text and as JSON. One pooled HTTP client serves all turns.
"""

import re
import sys

import httpx2

from sabir import Gateway, Message, Turn, agent, json_part


def weather_of(base: str, http: httpx2.AsyncClient):
    """An agent for a weather service that answers ``GET /weather?city=…`` with ``{"sky": …, "celsius": …}``."""

    @agent(name="weather", description="Tells the weather of a city", repeatable=True)
    async def weather(turn: Turn) -> Message:
        match = re.search(r"\bin ([A-Z][\w -]*)", turn.text)
        city = match.group(1) if match else (await turn.ask("Which city?")).text
        answer = await http.get(f"{base}/weather", params={"city": city})
        if answer.status_code == 404:
            return Message.text(f"I do not know {city}.")
        body = answer.json()
        words = f"In {city} it is {body['sky']}, {body['celsius']} degrees."
        return Message.text(words, parts=[json_part(body, label="weather")])

    return weather


def gateway(base: str, home: str = ".sabir") -> Gateway:
    http = httpx2.AsyncClient(trust_env=False)
    return Gateway(weather_of(base, http), home=home, beside=[http])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: proxy.py URL, of a service that answers GET /weather?city=…")
    gateway(sys.argv[1], ".sabir-proxy").run(port=8081)
