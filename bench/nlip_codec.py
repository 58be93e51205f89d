"""Decode and encode one NLIP message: Sabir's wires compared with the model of nlip-sdk (PyPI, the reference).

    python bench/nlip_codec.py

Messages of 57 bytes, 400 bytes and 11 kilobytes in JSON; 100 kilobytes of binary in CBOR and as base64 in JSON. Each
figure is the best of several runs, because other work on the machine can only add time.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

from venvs import python_with

PEER = """
import base64, json, sys, timeit
from nlip_sdk.nlip import NLIP_Message
def best(work, number, repeat=7):
    return min(timeit.repeat(work, number=number, repeat=repeat)) / number * 1e6
folder = sys.argv[1]
out = {}
for name in ("57 B", "400 B", "11 KB", "100 KB binary"):
    body = open(f"{folder}/{name}.json", "rb").read()
    number = max(5, int(200000 / (50 + len(body))))
    message = NLIP_Message.model_validate_json(body)
    if "binary" in name:  # its users must turn base64 into bytes and back themselves
        data = base64.b64decode(message.content)
        out[name] = [
            best(lambda: base64.b64decode(NLIP_Message.model_validate_json(body).content), number),
            best(lambda: NLIP_Message(format="binary", subformat="image/png",
                 content=base64.b64encode(data).decode()).to_json(), number),
        ]
    else:
        decode = best(lambda: NLIP_Message.model_validate_json(body), number)
        out[name] = [decode, best(lambda: message.to_json(), number)]
print(json.dumps(out))
"""


def messages() -> dict[str, bytes]:
    small = {"format": "text", "subformat": "english", "content": "Hello"}
    token = {"format": "token", "subformat": "conversation", "content": "c" * 60}
    options = {"format": "structured", "subformat": "json", "content": {"unit": "C", "days": [1, 2, 3]}}
    middle = {
        **small,
        "content": "What is the weather going to be like in Springfield tomorrow afternoon?",
        "submessages": [token, {**options, "label": "options"}],
    }
    words = {"format": "text", "subformat": "english", "content": "the quick brown fox jumps over the lazy dog " * 10}
    large = {**small, "submessages": [dict(words, label=str(number)) for number in range(21)]}
    binary = {
        "format": "binary",
        "subformat": "image/png",
        "content": base64.b64encode(bytes(range(256)) * 400).decode(),
    }
    dumped = {"57 B": small, "400 B": middle, "11 KB": large, "100 KB binary": binary}
    return {name: json.dumps(value, separators=(",", ":")).encode() for name, value in dumped.items()}


def best(work: Callable[[], object], number: int, repeat: int = 7) -> float:
    return min(timeit.repeat(work, number=number, repeat=repeat)) / number * 1e6


def ours(bodies: dict[str, bytes]) -> dict[str, tuple[float, float]]:
    from sabir.protocols.nlip.wire import cbor
    from sabir.protocols.nlip.wire import json as nlip

    out = {}
    for name, body in bodies.items():
        message = nlip.decode(body)
        number = max(5, int(200_000 / (50 + len(body))))
        out[name] = (best(lambda b=body: nlip.decode(b), number), best(lambda m=message: nlip.encode(m), number))
    message = nlip.decode(bodies["100 KB binary"])
    frame = cbor.encode(message)
    out["100 KB binary, CBOR"] = (best(lambda: cbor.decode(frame), 500), best(lambda: cbor.encode(message), 500))
    return out


def main() -> None:
    bodies = messages()
    reference = python_with("nlip", "nlip-server==0.1.3", "nlip-sdk==0.1.3", "uvloop", "httptools")
    with tempfile.TemporaryDirectory() as folder:
        for name, body in bodies.items():
            (Path(folder) / f"{name}.json").write_bytes(body)
        done = subprocess.run([reference, "-c", PEER, folder], capture_output=True, text=True, check=True)
    sdk = json.loads(done.stdout)
    mine = ours(bodies)
    sdk["100 KB binary, CBOR"] = sdk["100 KB binary"]  # what it costs the same user through the SDK
    print(f"{'':20} {'bytes':>7} {'sdk decode':>11} {'encode':>8} {'sabir decode':>13} {'encode':>8} {'× cheaper':>10}")
    for name, (decode, encode) in mine.items():
        size = len(bodies.get(name, b"")) or 102_400
        ratio = sum(sdk[name]) / (decode + encode)
        print(
            f"{name:20} {size:>7} {sdk[name][0]:>9.2f}µs {sdk[name][1]:>6.2f}µs "
            f"{decode:>11.2f}µs {encode:>6.2f}µs {ratio:>10.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())
