"""The settings under ``doors: {acl: …}``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from sabir.dialogues.settings import DialogueSettings


class OntologySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A custom ontology term: the acts that carry it, a JSON Schema of their payload, a link to a document."""

    acts: tuple[str, ...] = ()
    description: str = ""
    payload: dict[str, Any] | None = None  # JSON Schema
    document: str = ""  # link to RDF or OWL


class AclSettings(DialogueSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the door, of conversations and of inboxes."""

    strict: bool = False  # reject messages without fields that the draft requires and known clients omit
    signatures: Literal["off", "accept", "require"] = "off"
    skew_seconds: Annotated[float, msgspec.Meta(gt=0)] = 300.0  # allowed clock difference of a signer
    groups: dict[str, tuple[str, ...]] = msgspec.field(
        default_factory=dict
    )  # besides those that agents join in the directory
    ontologies: dict[str, OntologySettings] = msgspec.field(default_factory=dict)
    wait_seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 60.0  # how long POST /mcp-request waits for a result
