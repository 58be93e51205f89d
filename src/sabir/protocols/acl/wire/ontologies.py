"""The ontology terms of the draft as data, and the term of each act."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from sabir.errors import BadMessage

_PROTOCOL: Final = "acl"
PREFIX: Final = "elizaos:ontology:"
# The draft's own general and agent terms have no subdomain, so it is optional.
_FORM: Final = re.compile(r"elizaos:ontology:[a-z0-9_-]+(?:/[a-z0-9_-]+){1,4}")


class Term(msgspec.Struct, frozen=True):
    """One ontology: which acts carry it, and optionally a JSON Schema of the payload or a link to a document."""

    name: str
    acts: tuple[str, ...]
    description: str = ""
    schema: dict[str, Any] | None = None
    document: str = ""  # link to an RDF or OWL document


def _table(*terms: Term) -> Mapping[str, Term]:
    return {term.name: term for term in terms}


TERMS: Final = _table(
    Term(f"{PREFIX}code/python/debug_request", ("TASK_REQUEST",), "Debug Python code"),
    Term(f"{PREFIX}code/python/solution_provided", ("INFORM_RESULT",), "A working solution for Python code"),
    Term(f"{PREFIX}code/python/debug_analysis", ("INFORM_RESULT",), "An analysis of Python code without a full fix"),
    Term(f"{PREFIX}code/general/refactor_request", ("TASK_REQUEST",), "Refactor code"),
    Term(f"{PREFIX}code/general/refactor_suggestion", ("INFORM_RESULT",), "Suggestions for refactoring"),
    Term(f"{PREFIX}general/task_acceptance", ("TASK_ACCEPT",), "A task is accepted"),
    Term(f"{PREFIX}general/task_rejection", ("TASK_REJECT",), "A task is rejected"),
    Term(f"{PREFIX}general/action_execution_failure", ("FAILURE",), "An agreed action failed"),
    Term(f"{PREFIX}general/message_not_understood", ("NOT_UNDERSTOOD",), "A message was not understood"),
    Term(f"{PREFIX}agent/capability_query", ("QUERY_CAPABILITIES",), "What an agent can do is asked"),
    Term(f"{PREFIX}agent/capability_information", ("INFORM_CAPABILITIES",), "What an agent can do"),
)

# The term of a result, by the term of its request: on success, and otherwise.
_RESULTS: Final[Mapping[str, tuple[str, str]]] = {
    f"{PREFIX}code/python/debug_request": (
        f"{PREFIX}code/python/solution_provided",
        f"{PREFIX}code/python/debug_analysis",
    ),
    f"{PREFIX}code/general/refactor_request": (
        f"{PREFIX}code/general/refactor_suggestion",
        f"{PREFIX}code/general/refactor_suggestion",
    ),
}


def result_ontology(request: str, *, success: bool) -> str:
    """The ontology of a result; a request's term that is not in the table is kept."""
    known = _RESULTS.get(request)
    return known[0 if success else 1] if known else request


def check_form(term: str) -> None:
    """Raises:
    BadMessage: the term does not have the form ``elizaos:ontology:<domain>/<subdomain>/<concept>``.
    """
    if not _FORM.fullmatch(term):
        raise BadMessage(_PROTOCOL, "$.ontology", f"{PREFIX}<domain>/<subdomain>/<concept>")


def choose(wanted: Iterable[str], known: Iterable[str]) -> str | None:
    """The first known alternative, or None."""
    offered = set(known)
    return next((term for term in wanted if term in offered), None)
