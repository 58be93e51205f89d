"""Asking back: a turn is suspended on its question until the answer comes, by this request or a later one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sabir.events import Question
from sabir.message import Message

from .conversations import Held
from .request import EventSink, TurnRequest
from .states import TurnStep

if TYPE_CHECKING:
    from .exchange import Exchange


async def ask_back(exchange: Exchange, question: Question, sink: EventSink, held: Held, ask: TurnRequest) -> Message:
    """Suspend the turn on a question and return the answer; the conversation is unlocked while it waits."""
    turn, conversation = sink.turn, held.row.id
    quotas, filters, waits = exchange.guard.quotas, exchange.guard.filters, exchange.waits
    assert turn is not None
    waits.check_open()
    question = await filters.question(question, turn.caller)
    turn.questions += 1
    entry = f"{turn.id}?{turn.questions}"  # a follow-up question is recorded as its own turn
    await exchange.record(turn, ask, held, sink.asked or turn.message, Message.text(question.text), entry)
    waiting = sink.waiting = await waits.begin(
        conversation, quotas.answer_seconds, ask.agent or exchange.default, confirms=question.control
    )
    held.let_go()
    sink.take(TurnStep.ASK)
    sink.extend(quotas.answer_seconds)
    exchange.keyed.asks(turn.id, question, conversation)
    try:
        await sink.send(question)
        sink.end()
        answer, bringing = await waiting.answer
    finally:
        exchange.keyed.resume_turn(turn.id)
        sink.take(TurnStep.ANSWER)
        sink.waiting = None
        await waits.end(conversation, waiting)
    if bringing is not None:
        sink.move(bringing)  # first: later failures go to the request that brought the answer
    await held.take()
    sink.extend(quotas.turn_seconds if ask.seconds is None else ask.seconds)
    answer = sink.asked = await filters.inbound(answer, turn.caller)
    return answer
