"""NLWeb 0.54 and 0.55: the wire between ``/ask`` and the hub. Pure: no I/O, no clock, no randomness.

**A request becomes a Message** (``message_of``):

===================  ==========================================================================================
text part            ``query.text`` JSON, ``ask``        everything else that the agent may care about, as ``Details``:
filters (``site`` among them),
                     modes, limit, start, min_score, prev, memory, about, rewritten, answers, languages. Absent if
                     the request says nothing but its text.
JSON, ``answer``     ``context.answers``: the values given to a Question's fields, by field id
token parts          ``session_context.conversation_id``, and our own token if the caller has an id of its own
===================  ==========================================================================================

**A Reply becomes a response** (``ResponseFormat.reply``), for any agent; ``agents.site`` uses all of it:

====================  =========================================================================================
JSON, ``result``      one result object each: ``@type``, ``@id``, ``url``, ``name``, ``site``, ``score`` (0 to 100),
                      ``description``, ``grounding``, ``actions``, and the type's own fields. Sent ahead as
                      ``Delta(json_part(item, label="result"))`` it is streamed at once; the Reply repeats it.
JSON, ``summary``,    what ``summarize`` and ``generate`` wrote: ``{"text", "citations": [{"text", "url", "name"}]}``
or ``answer`` text                  text for people; everything that an agent other than a site says JSON, ``meta``
``Notes``: question, rewritten, ignored, total (0 becomes NO_RESULTS, with the text as its
                      message), coverage
JSON, ``question``    as in ``wire.nlip.question_message``: the reply is a question and becomes an Elicitation, for
                      agents that do not wait for the answer in the same turn as ``turn.ask`` does
====================  =========================================================================================

The models are those of the protocol: ``Query``, ``Context``, ``Prefer``, ``Meta``, ``SessionContext``,
``AskRequest``, ``AnswerResponse``, ``ElicitationResponse``, ``PromiseResponse``, ``FailureResponse``,
``ResultObject``, ``Grounding``, ``Action``, ``Elicitation``, ``ElicitationQuestion``, ``Promise``, ``Error``,
``AwaitRequest``.

The rest of the wire is in ``requests`` (decoding), ``mapping`` (the two tables above), ``responses`` (encoding, as JSON
and as events), and ``client`` and ``dialects`` (what servers answer).
"""

from __future__ import annotations

from typing import Final

from .mapping import Details, Notes, message_of, notes_of, question_of, results_of
from .models import (
    Action,
    AnswerResponse,
    AskRequest,
    AskResponseMeta,
    AwaitRequest,
    Context,
    Elicitation,
    ElicitationQuestion,
    ElicitationResponse,
    Error,
    FailureResponse,
    Grounding,
    Meta,
    Prefer,
    Promise,
    PromiseResponse,
    Query,
    ResponseMeta,
    ResultObject,
    SessionContext,
    plain,
)
from .requests import decode_ask, decode_await
from .responses import CODES, VERSIONS, ResponseFormat, Stream, encode

# What NLWeb cannot carry of a Message; documented for callers and tested.
LOSSES: Final[tuple[str, ...]] = (
    "control messages: ask for policies, limits and history over NLIP",
    "the bytes of binary parts: the reply names their kind and size",
    "the language of a text part",
    "in `conv_search`, text beside the results that is not a summary",
    "labels of parts, except those that site agents use",
    "tokens other than the conversation's",
)

__all__ = [
    "CODES",
    "LOSSES",
    "VERSIONS",
    "Action",
    "AnswerResponse",
    "AskRequest",
    "AskResponseMeta",
    "AwaitRequest",
    "Context",
    "Details",
    "Elicitation",
    "ElicitationQuestion",
    "ElicitationResponse",
    "Error",
    "FailureResponse",
    "Grounding",
    "Meta",
    "Notes",
    "Prefer",
    "Promise",
    "PromiseResponse",
    "Query",
    "ResponseFormat",
    "ResponseMeta",
    "ResultObject",
    "SessionContext",
    "Stream",
    "decode_ask",
    "decode_await",
    "encode",
    "message_of",
    "notes_of",
    "plain",
    "question_of",
    "results_of",
]
