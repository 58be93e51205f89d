"""A back-level client: a device that only speaks, or only knows a few words, with a helper in front (DEP-BACK).

``hear`` and ``speak`` stand for speech recognition and synthesis; here they only read and write bytes, so that the
example runs anywhere. The second way needs no helper: the client says by control which formats it reads.
"""

import asyncio

from sabir import BackLevel, Gateway, Part, Turn, agent, audio_part, connect


@agent(name="lights", description="Switches the lights")
async def lights(turn: Turn) -> str:
    return "The lights are on." if "on" in turn.text.split() else "The lights are off."


async def hear(part: Part) -> str:
    return bytes(part.content).decode()


async def speak(words: str) -> Part:
    return audio_part(words.encode())


def gateway(home: str = ".sabir") -> Gateway:
    return Gateway(BackLevel(lights, hear=hear, speak=speak, name="voice"), lights, home=home)


async def only_json(url: str) -> Part:
    """A device that reads nothing but ``structured/json`` says so, and gets nothing else."""
    async with connect(f"{url}/nlip/lights") as peer:
        await peer.control("I understand only structured json.")
        return (await peer.ask("lights on")).first


if __name__ == "__main__":
    import sys

    print(asyncio.run(only_json(sys.argv[1]))) if len(sys.argv) > 1 else gateway().run()
