"""Runs inside the environment of nlip-sdk: makes every kind of message it can, posts it, reads the reply with it.

Prints one JSON object a line: the kind, the status, and what the SDK read.
"""

import json
import sys
import urllib.error
import urllib.request

from nlip_sdk.nlip import NLIP_Factory as make
from nlip_sdk.nlip import NLIP_Message

PIXEL = "iVBORw0KGgo="


def everything() -> NLIP_Message:
    message = make.create_text("all at once")
    message.add_text("second", "english")
    message.add_json({"a": 1})
    message.add_structured_text("https://example.org/", "uri")
    message.add_binary(PIXEL, "image", "png")
    message.add_image(PIXEL, "png")
    message.add_audio("AAAA", "wav")
    message.add_video("AAAA", "mp4")
    message.add_location_text("Springfield")
    message.add_location_gps("47.37,8.54")
    message.add_error_code("out of paper")
    message.add_generic("x", "com.example.echo")
    message.add_conversation_token("of the client")
    message.add_authentication_token("a-1")
    return message


KINDS = {
    "text": make.create_text("Hello"),
    "text with a label": make.create_text("Hello", label="greeting"),
    "text of another type": make.create_text("Hello", messagetype="request"),
    "control": make.create_control("What are your policies?"),
    "token conversation": make.create_token("c-1", "conversation"),
    "token authentication": make.create_token("a-1", "authentication"),
    "json": make.create_json({"a": [1, {"b": None}]}),
    "structured uri": make.create_structured("https://example.org/", "uri"),
    "structured html": make.create_structured("<p>x</p>", "html"),
    "structured xml": make.create_structured("<a/>", "xml"),
    "binary": make.create_binary(PIXEL, "image", "png"),
    "image": make.create_image(PIXEL, "png"),
    "audio": make.create_audio("AAAA", "wav"),
    "video": make.create_video("AAAA", "mp4"),
    "location text": make.create_location_text("12 Elm Street"),
    "location gps": make.create_location_gps("47.37,8.54"),
    "error": make.create_error_code("out of paper"),
    "generic": make.create_generic("x", "com.example.echo"),
    "everything": everything(),
}


def ask(url: str, message: NLIP_Message) -> tuple[int, NLIP_Message]:
    request = urllib.request.Request(url, message.to_json().encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, NLIP_Message.model_validate_json(response.read())
    except urllib.error.HTTPError as refused:
        return refused.code, NLIP_Message.model_validate_json(refused.read())


def main(url: str) -> None:
    for kind, message in KINDS.items():
        status, reply = ask(url, message)
        print(
            json.dumps(
                {
                    "kind": kind,
                    "status": status,
                    "text": reply.extract_text(),
                    "format": reply.format,
                    "control": reply.is_control_msg(),
                    "conversation": reply.extract_conversation_token(),
                }
            )
        )
    _, first = ask(url, make.create_text("one"))
    follow = make.create_text("two")
    follow.add_conversation_token(first.extract_conversation_token())
    _, second = ask(url, follow)
    print(json.dumps({"kind": "conversation", "first": first.extract_text(), "second": second.extract_text()}))


main(sys.argv[1])
