"""Message and Part: content as frozen values.

A Message is an ECMA-430 message: a first submessage (``format``, ``subformat``, ``content``) followed by more Parts. It
is the hub: every protocol is translated to and from it. Spellings are canonical where the standard defines them
(``format`` in lower case) and kept unchanged where a peer must get them back (``subformat``, token contents). Binary
content is bytes; base64 exists only at a JSON edge, in the wires.

Nothing here reads or writes bytes; a protocol's wire does that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, overload

import msgspec

from sabir.misfits import NOT_JSON

JSON: TypeAlias = Any  # a JSON value, or bytes where the encoding has them

FORMATS: Final = frozenset({"text", "token", "structured", "binary", "location", "generic"})
CONTROL: Final = "control"
ERROR: Final = "error"

# English names and BCP 47 tags are equivalent (D-62); names are emitted.
LANGUAGES: Final[Mapping[str, str]] = {
    "en": "english", "es": "spanish", "fr": "french", "de": "german", "it": "italian", "pt": "portuguese",
    "nl": "dutch", "sv": "swedish", "no": "norwegian", "da": "danish", "fi": "finnish", "pl": "polish",
    "cs": "czech", "el": "greek", "tr": "turkish", "ru": "russian", "uk": "ukrainian", "ar": "arabic",
    "he": "hebrew", "fa": "persian", "hi": "hindi", "bn": "bengali", "ur": "urdu", "zh": "chinese",
    "ja": "japanese", "ko": "korean", "vi": "vietnamese", "th": "thai", "id": "indonesian", "ms": "malay",
    "sw": "swahili", "ro": "romanian", "hu": "hungarian", "bg": "bulgarian", "hr": "croatian",
    "sr": "serbian", "sk": "slovak", "sl": "slovenian", "lt": "lithuanian", "lv": "latvian",
    "et": "estonian", "ca": "catalan", "eu": "basque", "ga": "irish", "la": "latin", "ta": "tamil",
    "te": "telugu", "af": "afrikaans", "is": "icelandic", "mt": "maltese",
}  # fmt: skip
_TAGS: Final = {name: tag for tag, name in LANGUAGES.items()}
_TAG_SHAPE = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*")

# Media types and old names of the standard's json, uri, xml, html (D-13).
STRUCTURED: Final[Mapping[str, str]] = {
    "json": "json", "application/json": "json", "text/json": "json",
    "uri": "uri", "url": "uri", "text/uri-list": "uri",
    "xml": "xml", "application/xml": "xml", "text/xml": "xml",
    "html": "html", "text/html": "html", "application/xhtml+xml": "html",
}  # fmt: skip

MEDIA: Final = frozenset({"audio", "image", "sensor", "video", "generic"})
# The default kind of a bare encoding (D-14).
_KIND_OF: Final[Mapping[str, str]] = {
    "jpeg": "image", "jpg": "image", "png": "image", "gif": "image", "bmp": "image", "webp": "image",
    "svg": "image", "tiff": "image", "avif": "image", "heic": "image",
    "wav": "audio", "mp3": "audio", "ogg": "audio", "flac": "audio", "aac": "audio", "opus": "audio",
    "mp4": "video", "mov": "video", "avi": "video", "mkv": "video",
}  # fmt: skip

# The field's name in the typed decoders; a wire that meets it takes its slow, checking path.
_EXTRA_NAME = " extra "


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One submessage: a format, a subformat, a content, and optionally a label."""

    format: str
    subformat: str
    content: JSON
    label: str | None = None
    extra: dict[str, JSON] | None = msgspec.field(default=None, name=_EXTRA_NAME)

    @property
    def is_token(self) -> bool:
        return self.format == "token"

    @property
    def language(self) -> str | None:
        """The language tag of a text part (``en``), or the name as given if it is unknown."""
        return language_tag(self.subformat) if self.format == "text" else None

    @property
    def kind(self) -> str:
        """What a structured part contains: json, uri, xml, html or the name of a programming language."""
        if self.format == "structured" and isinstance(self.content, dict | list):
            return "json"
        name = self.subformat.strip().lower()
        return STRUCTURED.get(name.partition(";")[0].strip(), name)

    @property
    def value(self) -> JSON:
        """The JSON value of a ``structured/json`` part, whether it came as a value or as text."""
        if self.kind == "json" and isinstance(self.content, str):
            try:
                return msgspec.json.decode(self.content)
            except NOT_JSON:
                return self.content  # a JSON string is itself a JSON value
        return self.content

    @property
    def media(self) -> tuple[str, str]:
        """Kind and encoding of a binary part: ``("image", "png")``."""
        return media_of(self.subformat)

    @property
    def gps(self) -> tuple[float, float] | None:
        """Latitude and longitude of a ``location/gps`` part, if they are valid (D-61)."""
        return _gps(self.content) if self.format == "location" else None


class _Text:
    """``Message.text("hi")`` makes a message; ``message.text`` is its text."""

    @overload
    def __get__(self, message: None, owner: type[Message]) -> Callable[..., Message]: ...
    @overload
    def __get__(self, message: Message, owner: type[Message]) -> str: ...
    def __get__(self, message: Message | None, owner: type[Message]) -> Callable[..., Message] | str:
        return partial(_make_text, owner) if message is None else _words(message)


def _make_text(
    owner: type[Message],
    content: str,
    language: str = "english",
    *,
    messagetype: str | None = None,
    parts: Iterable[Part] = (),
) -> Message:
    return owner("text", language, content, messagetype, submessages=tuple(parts))


def _words(message: Message) -> str:
    if message.format == "text" and not message.submessages:
        return str(message.content)
    return "\n".join(str(part.content) for part in message.parts if part.format == "text")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message: a first submessage and the Parts after it.

    ``messagetype`` is ``"control"`` for control messages; any other word is data. ``control`` is kept only because some
    peers send it as well (D-19); read ``is_control``. ``extra`` has fields that the standard does not define, unchanged
    (D-05).
    """

    format: str
    subformat: str
    content: JSON
    messagetype: str | None = None
    label: str | None = None
    submessages: tuple[Part, ...] = ()
    control: bool | str | None = None
    extra: dict[str, JSON] | None = msgspec.field(default=None, name=_EXTRA_NAME)

    text = _Text()

    # -- made from ----------------------------------------------------------------------------

    @classmethod
    def of(cls, *parts: Part, messagetype: str | None = None) -> Message:
        """A message of these parts, the first one as its first submessage."""
        first, *rest = parts
        return cls(
            first.format,
            first.subformat,
            first.content,
            messagetype,
            first.label,
            tuple(rest),
            None,
            first.extra,
        )

    @classmethod
    def json(cls, value: JSON, *, label: str | None = None) -> Message:
        """A message whose first part is a JSON value."""
        return cls("structured", "json", value, label=label)

    @classmethod
    def error(cls, reason: str, *, control: bool = False) -> Message:
        """A failure in NLIP (D-12)."""
        if control:
            return cls("text", "english", reason, CONTROL, submessages=(text_part(reason, label=ERROR),))
        return cls("text", "english", reason, ERROR)

    # -- read ---------------------------------------------------------------------------------

    @property
    def first(self) -> Part:
        return Part(self.format, self.subformat, self.content, self.label)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every part, the first submessage included, in order."""
        return (self.first, *self.submessages)

    @property
    def is_control(self) -> bool:
        kind = self.messagetype
        if kind is None and self.control is None:
            return False
        if kind is not None and (kind == CONTROL or kind.strip().lower() == CONTROL):
            return True
        flag = self.control
        return flag is True or (isinstance(flag, str) and flag.strip().lower() == "true")

    @property
    def is_error(self) -> bool:
        if self.messagetype is not None and self.messagetype.strip().lower() == ERROR:
            return True
        return any(part.format == ERROR for part in self.parts)

    @property
    def tokens(self) -> tuple[Part, ...]:
        """The token parts, first submessage included, in order."""
        if self.format != "token" and not self.submessages:
            return ()
        return tuple(part for part in self.parts if part.format == "token")

    @property
    def language(self) -> str | None:
        return next((part.language for part in self.parts if part.format == "text"), None)

    def labelled(self, label: str) -> Part | None:
        """The first part with this label, ignoring case."""
        wanted = label.lower()
        return next((p for p in self.parts if p.label is not None and p.label.lower() == wanted), None)

    # -- changed into -------------------------------------------------------------------------

    def with_part(self, part: Part) -> Message:
        return self.with_parts((part,))

    def with_parts(self, parts: Iterable[Part]) -> Message:
        more = tuple(parts)
        return msgspec.structs.replace(self, submessages=self.submessages + more) if more else self

    def with_type(self, messagetype: str | None) -> Message:
        return msgspec.structs.replace(self, messagetype=messagetype)

    def without_tokens(self) -> Message:
        """The message without tokens, for agents, models, logs and other hops, which must not see them.

        If the first submessage is a token, an empty English text replaces it, because a message needs one.
        """
        if self.format != "token" and not self.submessages:
            return self
        rest = tuple(part for part in self.submessages if part.format != "token")
        if self.format == "token":
            if rest:
                return msgspec.structs.replace(Message.of(*rest), messagetype=self.messagetype, control=self.control)
            return Message("text", "english", "", self.messagetype, control=self.control)
        return self if len(rest) == len(self.submessages) else msgspec.structs.replace(self, submessages=rest)


# -- parts, by what they hold -----------------------------------------------------------------


def text_part(text: str, language: str = "english", *, label: str | None = None) -> Part:
    return Part("text", language, text, label)


def json_part(value: JSON, *, label: str | None = None) -> Part:
    return Part("structured", "json", value, label)


def uri_part(uri: str, *, label: str | None = None) -> Part:
    return Part("structured", "uri", uri, label)


def binary_part(data: bytes, subformat: str, *, label: str | None = None) -> Part:
    """Bytes with their kind and encoding, e.g. ``image/png``."""
    return Part("binary", subformat, data, label)


def token_part(content: JSON, subformat: str = "conversation", *, label: str | None = None) -> Part:
    return Part("token", subformat, content, label)


def location_part(latitude: float, longitude: float, *, label: str | None = None) -> Part:
    return Part("location", "gps", f"{latitude},{longitude}", label)


# -- readings ---------------------------------------------------------------------------------


def language_tag(name: str) -> str:
    """``English``, ``english``, ``en``, ``en-US`` are all ``en``; an unknown name stays, in lower case."""
    lowered = name.strip().lower()
    if not lowered:
        return "en"
    if lowered in _TAGS:
        return _TAGS[lowered]
    shape = _TAG_SHAPE.fullmatch(lowered)
    if shape is not None and shape.group(1) in LANGUAGES:
        return shape.group(1)
    return lowered


def language_name(tag: str) -> str:
    """The lower-case English name of a language (D-62), or the tag itself if it has none here."""
    return LANGUAGES.get(language_tag(tag), tag)


def media_of(subformat: str) -> tuple[str, str]:
    """Kind and encoding: dots and parameters removed, other media types become generic (D-14)."""
    name = subformat.partition(";")[0].strip().lower()
    kind, slash, encoding = name.partition("/")
    if not slash:
        encoding = kind.lstrip(".")
        return _KIND_OF.get(encoding, "generic"), encoding
    return (kind if kind in MEDIA else "generic"), encoding.strip().lstrip(".")


def token_kind(subformat: str) -> str:
    """The reserved prefix of a token: ``conversation``, ``authentication`` (also spelt ``authorization``, D-18), or the
    subformat's own prefix."""
    prefix = subformat.strip().lower().partition("_")[0]
    return "authentication" if prefix == "authorization" else prefix


def printable(name: str, limit: int = 40) -> str:
    """A name from the wire, safe to use in an error text."""
    return "".join(c if c.isprintable() else "\ufffd" for c in name[:limit]) + ("…" if len(name) > limit else "")


def _gps(content: JSON) -> tuple[float, float] | None:
    pair: tuple[Any, Any]
    if isinstance(content, str):
        pieces = content.split(",")
        if len(pieces) not in (2, 3):
            return None
        pair = pieces[0], pieces[1]
    elif isinstance(content, list | tuple) and len(content) in (2, 3):
        pair = content[0], content[1]
    elif isinstance(content, dict):
        named = {str(key).lower(): value for key, value in content.items()}
        pair = (
            next((named[key] for key in ("lat", "latitude") if key in named), None),
            next((named[key] for key in ("lon", "lng", "long", "longitude") if key in named), None),
        )
    else:
        return None
    return _point(*pair)


def _point(latitude: Any, longitude: Any) -> tuple[float, float] | None:
    if isinstance(latitude, bool) or isinstance(longitude, bool):
        return None
    try:
        lat, lon = float(latitude), float(longitude)
    except (TypeError, ValueError, OverflowError):  # an integer may have any size
        return None
    return (lat, lon) if abs(lat) <= 90 and abs(lon) <= 180 else None
