"""The operator's own ontology terms: which acts carry them, and the schema of their payload (ACL-22)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from sabir.errors import BadMessage, ConfigError, MissingExtra
from sabir.protocols.acl.wire.acts import PROTOCOL
from sabir.protocols.acl.wire.envelope import Envelope
from sabir.protocols.acl.wire.payloads import is_encrypted

from .settings import OntologySettings


class OwnTerms:
    """The configured terms."""

    def __init__(self, terms: Mapping[str, OntologySettings]) -> None:
        """Raises:
        ConfigError: a payload is not a JSON Schema.
        MissingExtra: there is a payload schema, but the validator is not installed.
        """
        self._terms = terms
        described = {name: term.payload for name, term in terms.items() if term.payload is not None}
        self._validators = {name: _validator(name, schema) for name, schema in described.items()}

    def check(self, envelope: Envelope) -> None:
        """Check that a message uses a term as registered; other terms are not checked.

        Raises:
            BadMessage: the act does not carry it, or the payload is invalid; says where.
        """
        for name in envelope.ontologies[:1]:
            term = self._terms.get(name)
            if term is None:
                continue
            if term.acts and envelope.performative not in term.acts:
                expected = f"another term; {name} is carried by {', '.join(term.acts)}"
                raise BadMessage(PROTOCOL, "$.ontology", expected)
            validator = self._validators.get(name)
            if validator is not None and not is_encrypted(envelope.payload):
                _check(validator, envelope.payload)


def _validator(name: str, schema: dict[str, Any]) -> Any:  # of an untyped library
    try:
        jsonschema = importlib.import_module("jsonschema")
    except ImportError as exc:
        raise MissingExtra(f"doors.acl.ontologies.{name}.payload", "mcp") from exc
    kind = jsonschema.Draft202012Validator
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as exc:
        raise ConfigError(f"doors.acl.ontologies.{name}.payload: expected a JSON Schema ({exc.message})") from None
    return kind(schema)


def _check(validator: Any, payload: dict[str, Any]) -> None:
    for error in validator.iter_errors(payload):
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
        wanted = (
            "a value as its schema has it"
            if error.validator == "const"
            else f"{error.validator} {error.validator_value!r}"
        )
        raise BadMessage(PROTOCOL, f"$.payload{place}", wanted[:200])
