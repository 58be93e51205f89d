"""Ask by voice: espeak-ng speaks the question, the agent recognises it with PocketSphinx and answers by voice, too.

Needs ``apt-get install espeak-ng`` and ``pip install pocketsphinx``. Both run on this machine, without a service.
"""

from __future__ import annotations

import array
import asyncio
import io
import shutil
import subprocess
import wave

from pocketsphinx import Decoder

from sabir import Message, Turn, agent, audio_part, connect
from sabir.testing import served

RATE = 16_000  # samples per second, as the recogniser's model expects
GRAMMAR = "#JSGF V1.0; grammar office; public <ask> = (when | where) is the (meeting | lunch | train);"
ANSWERS = {"meeting": "at nine", "lunch": "at noon", "train": "on platform two"}


def spoken(text: str) -> bytes:
    """A text as a WAV file."""
    return subprocess.run(["espeak-ng", "-s", "140", "--stdout", text], check=True, capture_output=True).stdout


def between(sound: array.array[int], place: float) -> int:
    """The interpolated sample at a position."""
    before, after = sound[int(place)], sound[int(place) + 1]
    return round(before + (after - before) * (place - int(place)))


def heard(recording: bytes) -> str:
    """The words of a WAV file."""
    decoder = Decoder(lm=None, samprate=RATE, loglevel="FATAL")
    decoder.add_jsgf_string("office", GRAMMAR)
    decoder.activate_search("office")
    with wave.open(io.BytesIO(recording)) as file:
        sound = array.array("h", file.readframes(file.getnframes()))
        step = file.getframerate() / RATE
    samples = array.array("h", (between(sound, place * step) for place in range(int((len(sound) - 1) / step))))
    decoder.start_utt()
    decoder.process_raw(samples.tobytes(), full_utt=True)
    decoder.end_utt()
    return decoder.hyp().hypstr if decoder.hyp() else ""


@agent(description="Answers by voice")
async def assistant(turn: Turn) -> Message:
    recording = next(part.content for part in turn.parts if part.subformat.startswith("audio/"))
    words = await asyncio.to_thread(heard, recording)
    subject = words.rpartition(" ")[2]
    answer = f"The {subject} is {ANSWERS[subject]}." if subject in ANSWERS else "Please say that again."
    return Message.text(f"{words}? {answer}", parts=[audio_part(await asyncio.to_thread(spoken, answer), "wav")])


async def main() -> None:
    if shutil.which("espeak-ng") is None:
        raise SystemExit("espeak-ng is missing: apt-get install espeak-ng")
    with served(assistant) as url:
        async with connect(url) as client:
            for question in ("When is the meeting?", "Where is the train?"):
                reply = await client.ask(Message.of(audio_part(spoken(question), "wav")))
                sound = next(part.content for part in reply.parts if part.format == "binary")
                print(f"{reply.text} ({'RIFF' if sound[:4] == b'RIFF' else 'no'} audio)")


if __name__ == "__main__":
    asyncio.run(main())
