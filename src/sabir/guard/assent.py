"""Recognises yes, no and "cancel" in several languages. Pure.

The whole answer must be such a phrase: "yes, but not today" is neither a yes nor a no.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final

from sabir.message import Message

from .phrases import expanded

_MAX_READ: Final = 100  # characters; no such answer is longer
_CLAUSES: Final = re.compile(r"[.,!;]")  # "Yes, exactly." has two
_MARKS: Final = re.compile(r"[\s.,!;\-–—¡]+")

_YES: Final = (
    "yes|y|yep|yeah|yes please|yes i do|yes do it|yes do|yes go ahead|yes i am|yes i am sure|"
    "yes i'm sure|yes i confirm|yes confirm|yes confirmed|yes erase it|yes delete it|yes erase|"
    "yes delete|yes i accept|yes i agree|yes i want that|yes that's right|yes that is right|"
    "yes correct|yes right|ok|okay|ok do it|sure|confirm|confirmed|i confirm|i confirm it|"
    "i confirm that|i do|i agree|i accept|correct|right|that's right|that is right|"
    "that's correct|that is correct|exactly|true|go ahead|do it|please do|affirmative|of course|"
    "yes of course|yes thanks|ja|jawohl|ja bitte|ja genau|ja sicher|ja gern|ja gerne|ja löschen|"
    "ja lösche es|ja bitte löschen|ja ich bestätige|ja ich bin sicher|ja ich stimme zu|"
    "ja ich akzeptiere|ja richtig|ja stimmt|bestätigt|ich bestätige|einverstanden|richtig|genau|"
    "stimmt|natürlich|mach das|bestätigen|ja bestätigen|ja einverstanden|sí|si|sí por favor|"
    "si por favor|sí confirmo|si confirmo|sí acepto|si acepto|sí bórrala|sí borrar|sí claro|"
    "confirmo|lo confirmo|de acuerdo|correcto|claro|vale|adelante|exacto|confirmado|confirmar|"
    "sí estoy de acuerdo|por supuesto|oui|oui s'il te plaît|oui s'il vous plaît|oui je confirme|"
    "oui j'accepte|oui bien sûr|oui supprime|oui efface|oui vas y|oui allez y|je confirme|"
    "d'accord|oui d'accord|exact|c'est ça|c'est exact|bien sûr|vas y|allez y|confirmé|confirmer|"
    "oui merci|sì|sì grazie|sì confermo|confermo|sim|sim por favor|tak|igen|da|ja graag|jo|"
    "evet|はい|是|네"
)
_NO: Final = (
    "no|n|nope|no thanks|no thank you|no don't|no do not|no please don't|don't|do not|"
    "please don't|never|not now|wrong|incorrect|false|not right|not correct|that's wrong|"
    "that is wrong|i don't|i do not|no i don't|no i do not|no wait|rather not|"
    "better not|no never|nein|nein danke|nicht|lieber nicht|falsch|auf keinen fall|niemals|"
    "nein bitte nicht|bitte nicht|nein nicht|nö|nee|no gracias|mejor no|incorrecto|falso|"
    "no lo hagas|nunca|non|non merci|surtout pas|faux|plutôt pas|pas maintenant|jamais|"
    "ne le fais pas|ne le faites pas|não|nie|nem|нет|hayır|いいえ|不|아니요|no grazie|nee bedankt"
)
_CANCEL: Final = (
    "cancel|cancel it|cancel that|cancel this|cancel the task|cancel the work|cancel the question|"
    "cancel your question|never mind cancel that|never mind cancel it|"
    "cancel the request|cancel that request|cancel this request|cancel that question|cancel that task|"
    "cancel everything|cancel what you are doing|stop what you are doing|stop what you're doing|stop doing that|"
    "cancel my question|cancel my request|abort|abort it|abort that|"
    "abort the task|nevermind|never mind|forget it|forget that|stop|stop it|stop that|stop this|"
    "stop now|stop working|stop working on it|stop working on that|stop working on this|"
    "stop the work|stop the task|stop the answer|stop the question|take it back|take that back|"
    "take the question back|take back the question|take back my question|cancel the last question|"
    "drop it|scratch that|leave it|stop right there|stop there|stop please|abbrechen|brich ab|"
    "brechen sie ab|brich das ab|brechen sie das ab|stopp|halt|vergiss es|vergessen sie es|"
    "schon gut|abbruch|hör auf|hören sie auf|lass es|lassen sie es|hör damit auf|anhalten|"
    "(cancel|stop|abort|drop|halt|interrupt|kill|forget|ignore|disregard) [the|my|that|this|your] "
    "[last|current|running|whole] (task|job|work|question|request|query|search|process|operation)|"
    "(cancel|stop|abort|drop|halt) (it all|everything|what you are doing|what you're doing|whatever you are doing|"
    "whatever you're doing|doing this|that right away|all of that)|"
    "you can stop|enough|that's enough|that is enough|don't bother|don't continue|do not continue|don't go on|"
    "do not go on|call it off|call that off|no need to (continue|go on|finish)|hold on stop|give up on that|"
    "(brich|brechen sie) [die|meine|das|den|diese|diesen|dieses] [letzte|letzten|laufende|laufenden] "
    "(aufgabe|frage|anfrage|suche|auftrag|vorgang|arbeit) ab|(brich|brechen sie) (alles|es|das ganze|den vorgang) ab|"
    "(stopp|stoppe|stoppen sie|beende|beenden sie) (das|es|alles|die suche|die anfrage|die arbeit|die aufgabe|"
    "den vorgang|den auftrag|was du gerade tust|was du gerade machst)|(hör|hören sie) (auf damit|damit auf|auf)|"
    "mach nicht weiter|machen sie nicht weiter|das reicht|es reicht|genug|vergiss die frage|vergiss meine frage|"
    "(die|meine|diese) (aufgabe|frage|anfrage|suche|arbeit) (abbrechen|stoppen)|(den|diesen) (auftrag|vorgang) "
    "(abbrechen|stoppen)|das abbrechen|alles abbrechen|"
    "(para|pare|detén|detenga|cancela|cancele|deja|deje|interrumpe|aborta) (eso|esto|todo|lo que estás haciendo|"
    "lo que está haciendo|lo que haces|de trabajar)|"
    "(para|pare|detén|detenga|cancela|cancele|interrumpe|aborta) (la|mi|esa|esta|el) [última] "
    "(tarea|pregunta|petición|solicitud|búsqueda|consulta|trabajo|proceso)|ya basta|es suficiente|no sigas|no siga|"
    "no continúes|cancelar (eso|esto|todo|la tarea|la pregunta|la petición|la búsqueda|mi pregunta|mi petición)|"
    "(arrête|arrêtez|annule|annulez|stoppe|stoppez|interromps|interrompez|cesse|cessez) (ça|cela|tout|"
    "ce que tu fais|ce que vous faites|ce que tu es en train de faire|ce que vous êtes en train de faire)|"
    "(arrête|arrêtez|annule|annulez|stoppe|stoppez|interromps|interrompez|annuler|arrêter) (la|ma|cette|le|ce|mon) "
    "[dernière] (tâche|question|demande|recherche|requête|travail|opération|traitement)|"
    "(tu peux|vous pouvez) (arrêter|t'arrêter|vous arrêter|tout arrêter)|ça ira|c'est bon arrête|ne continue pas|"
    "ne continuez pas|(arrête|arrêtez) (là|toi là|tout de suite|tout ça)|"
    "cancela|cancelar|cancélalo|cancele|cancélelo|cancela eso|cancela la pregunta|"
    "cancela la tarea|para|detente|déjalo|déjelo|olvídalo|olvídelo|no importa|alto|basta|"
    "annule ta question|annulez votre question|annule la question|annulez la question|"
    "abort the job that is running|cancel the job that is running|stop the job that is running|"
    "abort the task that is running|cancel the task that is running|stop the task that is running|drop the task|"
    "drop the job|drop the question|drop the task i no longer need it|cancel the task i no longer need it|"
    "brich die aufgabe ab|brich die laufende aufgabe ab|brechen sie die aufgabe ab|"
    "brechen sie die laufende aufgabe ab|stoppe die aufgabe|stoppe die laufende aufgabe|"
    "cancela la tarea en curso|cancele la tarea|cancele la tarea en curso|detén la tarea|detén la tarea en curso|"
    "annule la tâche en cours|annulez la tâche|annulez la tâche en cours|arrête la tâche|arrêtez la tâche|"
    "arrête la tâche en cours|arrêtez la tâche en cours|"
    "detenlo|aborta|annule|annulez|annuler|annule ça|annule cela|annulez cela|annulez ça|"
    "annule la question|annule la tâche|arrête|arrêtez|arrête ça|arrêtez ça|laisse tomber|"
    "laissez tomber|oublie ça|oubliez ça|peu importe|ça suffit|abandonne"
)
# Cancellations that are composed: a verb, then what is cancelled.
_CANCEL_COMPOSED: Final = (
    "(cancel|stop|abort|drop|scrap|forget|ignore|undo|withdraw|disregard|revoke|scratch|kill|halt|interrupt|skip|"
    "dismiss|"
    "discard|retract) [the|my|that|this|your] [last|latest|previous|current|running|whole] (task|job|work|question|"
    "request|"
    "query|search|process|operation|order|command|enquiry|inquiry)|"
    "(cancel|stop|abort|drop|scrap|ignore|disregard|scratch) (what i just asked|what i just asked for|"
    "the thing i just asked|"
    "the last thing i asked|the last thing i asked for|whatever i asked|what you were doing|what you're working on|"
    "what you are working on|all that|all of it|the whole thing)|forget (i asked|i ever asked|i said anything|"
    "what i just asked|the last thing i asked|about it|about that|about the question|about my question|"
    "about that question)|"
    "(call|break) (it|that|this|the search|the task|the whole thing) off|call the whole thing off|let it go|let it be|"
    "leave it at that|it doesn't matter|doesn't matter|not important|no matter|don't worry about it|you can drop it|"
    "you can forget it|you can forget that|i take it back|i take that back|quit it|quit that|knock it off|"
    "(vergiss|vergessen sie|ignorier|ignoriere|ignorieren sie|streich|streiche|storniere|stornieren sie|verwirf|stopp|"
    "stoppe|stoppen sie|annulliere|lass|cancel|cancle) (die|meine|diese|den|meinen|diesen|das|mein) [letzte|letzten|"
    "vorige|vorherige|aktuelle|laufende|laufenden] (anfrage|frage|aufgabe|bitte|auftrag|suche|vorgang|befehl|arbeit|"
    "job)|"
    "(vergiss|ignorier|ignoriere|lass) (das|was ich gerade gefragt habe|was ich eben gefragt habe|das gerade|das eben)|"
    "(lass|lassen sie) (die|meine|diese) (frage|anfrage|aufgabe|sache) fallen|"
    "(stop|quit) working on (my|the|this|that|your) [last|current|latest] (request|question|task|job|answer)|"
    "(hör|hören sie) auf an (meiner|der|dieser) [letzten|aktuellen] (anfrage|frage|aufgabe) zu arbeiten|"
    "(deja|deje) de trabajar en (mi|la|esta|esa) [última] (petición|pregunta|tarea|solicitud)|"
    "(arrête|arrêtez) de travailler sur (ma|la|cette) [dernière] (demande|question|tâche|requête)|"
    "brich ab was ich (gerade|eben) gefragt habe|(cancela|cancele|anula|olvida) lo que acabo de (pedir|preguntar)|"
    "cancélala|cancélela|annule la|annulez la|annule le|annulez le|let's forget (it|that|about it|about that)|"
    "egal|ist egal|ist auch egal|macht nichts|lass gut sein|lass mal|lass mal gut sein|lassen wir das|lassen wir es|"
    "doch nicht|hat sich erledigt|das hat sich erledigt|es hat sich erledigt|nicht so wichtig|ist nicht so wichtig|"
    "ist nicht mehr wichtig|(hör|hören sie) auf (mit dem was du gerade machst|mit dem was du machst|"
    "mit dem was du tust|"
    "mit der suche|mit der arbeit|mit der aufgabe|damit|zu arbeiten|zu suchen)|"
    "(olvida|olvide|ignora|ignore|descarta|anula|anule|cancela|cancele|deja|retira|suspende|interrumpe|para|"
    "detén) (la|mi|"
    "esa|esta|el|ese|este) [última|último|anterior] (tarea|pregunta|petición|solicitud|búsqueda|consulta|trabajo|"
    "proceso|"
    "encargo|pedido|orden|operación)|(olvida|olvide|ignora|anula|cancela|deja|olvídate de|para|"
    "detén) (lo último que te pedí|"
    "lo que te pedí|lo que te acabo de pedir|lo último que pedí|lo que te pregunté|lo último que te pregunté|eso|esto|"
    "lo de antes|lo anterior|lo que estás haciendo|lo que estabas haciendo)|da igual|déjalo así|déjalo estar|"
    "ya no importa|no pasa nada|no te preocupes|ya no hace falta|no hace falta|mejor no sigas|deja de hacer eso|"
    "deja de hacerlo|no lo hagas más|"
    "(oublie|oubliez|ignore|ignorez|annule|annulez|abandonne|abandonnez|laisse|stoppe|arrête|arrêtez|interromps) (la|"
    "ma|cette|"
    "le|ce|mon) [dernière|dernier|précédente] (tâche|question|demande|recherche|requête|travail|opération|traitement|"
    "commande|ordre)|(oublie|oubliez|ignore|annule|laisse) (ce que je viens de demander|ce que je t'ai demandé|"
    "ce que je viens de te demander|la dernière chose que j'ai demandée|cela)|tant pis|ce n'est pas grave|"
    "c'est pas grave|"
    "pas grave|c'est sans importance|ça ne fait rien|n'y pense plus|n'en parlons plus|laisse|laisse ça|on oublie|"
    "pas la peine|plus la peine|ce n'est plus la peine|arrête tes recherches"
)
_POLITE: Final = (
    "pardon|pardon me|excuse me|entschuldigung|verzeihung|perdona|perdón|perdone|lo siento|disculpa|disculpe|désolé|"
    "désolée|excuse moi|excusez moi|"
    "please|thanks|thank you|ok|okay|sorry|now|just|oh|well|actually|alright|bitte|"
    "danke|jetzt|sofort|hey|hallo|hola|bonjour|salut|vale|bon|right away|"
    "por favor|gracias|ahora|s'il te plaît|s'il vous plaît|stp|svp|merci|"
    "maintenant|doch|mal"
)
# Beside a cancellation these change nothing; beside a yes they do: "yes, wait".
_INTERJECTIONS: Final = (
    "wait|hold it|hold on|wait a moment|wait a second|one moment|one second|moment|moment mal|warte|warte mal|"
    "warten sie|einen moment|espera|espere|un momento|un segundo|attends|attendez|un instant|une seconde|whoa|"
    "ah|aw|bah|bof|ach|ach so|na ja|naja|eh|hm|hmm|uf|ay|pues|bueno|allez|tiens|en fait|du coup|eigentlich|na|also|eben"
)
_REQUESTS: Final = (
    "i want you to|i'd like you to|i need you to|i would like you to|ich möchte dass du|quiero que|je veux que tu|"
    "could you|can you|would you|will you|kannst du|können sie|könntest du|könnten sie|puedes|"
    "podrías|peux tu|pouvez vous|pourrais tu|pourriez vous|veuillez"
)
_WISHES: Final = (
    "i want to|i need to|i would like to|i wish to|i'd like to|ich möchte|ich will|quiero|quisiera|je veux|je voudrais"
)


# Why somebody cancels; beside a cancellation it changes nothing, and alone it is not a cancellation.
_REASONS: Final = (
    "i (don't|do not) need (it|that|this) [any more|anymore|any longer|now]|i no longer need (it|that|this)|"
    "it's (no longer|not) needed|(that|it) is no longer needed|(i|i've|i have) changed my mind|"
    "(it|that|this) (takes|is taking) too long|it's taking too long|i (found|have found) it myself|i've got it now|"
    "ich brauche (es|das|sie) nicht mehr|(das|es) ist nicht mehr nötig|das brauche ich nicht mehr|"
    "ich (brauch|brauche) (es|das|sie|ihn) nicht mehr|(brauch|brauche) ich nicht mehr|das brauch ich nicht mehr|"
    "ich habe es mir anders überlegt|(das|es) dauert (mir|mir zu|zu) lange|"
    "ya no (hace falta|lo necesito|es necesario|la necesito)|he cambiado de (idea|opinión)|cambié de (idea|opinión)|"
    "tarda demasiado|ce n'est plus (la peine|nécessaire|utile)|je n'en ai plus besoin|j'ai changé d'avis|"
    "c'est trop long|ça prend trop de temps|plus besoin|"
    "i (don't|do not) want to answer (that|this|the|your) [question]|(das|die frage|diese frage) (möchte|will) ich "
    "nicht beantworten|ich (möchte|will) (das|die frage|diese frage|deine frage) nicht beantworten|"
    "no quiero (responder|contestar) [a] (eso|esa pregunta|esta pregunta|la pregunta|tu pregunta|su pregunta)|"
    "je ne veux pas répondre [à] (cette question|la question|ta question|votre question|ça)"
)


def _folded(text: str) -> str:
    marked = unicodedata.normalize("NFC", text).replace("’", "'").casefold()
    return " ".join(_MARKS.sub(" ", marked).split())


def _set_of(phrases: str) -> frozenset[str]:
    """The phrases, with and without their accents."""
    folded = {_folded(phrase) for phrase in expanded(phrases)}
    return frozenset(folded | {_plain(phrase) for phrase in folded})


def _plain(text: str) -> str:
    return "".join(mark for mark in unicodedata.normalize("NFD", text) if not unicodedata.combining(mark))


_YES_SET: Final = _set_of(_YES)
_NO_SET: Final = _set_of(_NO) - _YES_SET
_REASON_SET: Final = _set_of(_REASONS)
_POLITE_SET: Final = sorted(_set_of(_POLITE), key=len, reverse=True)
_BESIDE_CANCEL: Final = sorted(_set_of(f"{_POLITE}|{_INTERJECTIONS}"), key=len, reverse=True)
_REQUEST_SET: Final = _set_of(_REQUESTS)
_WISH_SET: Final = _set_of(_WISHES)


@cache
def _cancellations() -> frozenset[str]:
    """Every way to cancel. Loaded with the first message that may be one."""
    return _set_of(f"{_CANCEL}|{_CANCEL_COMPOSED}")


def assent(message: Message) -> bool | None:
    """True for yes, False for no, None for anything else. Programs can send a part labelled ``confirm`` instead."""
    part = message.labelled("confirm")
    if part is not None and isinstance(part.value, bool):
        return part.value
    if any(
        isinstance(submessage.value, dict) and isinstance(submessage.value.get("confirm"), bool)
        for submessage in message.submessages
    ):
        return all(
            submessage.value["confirm"] is True
            for submessage in message.submessages
            if isinstance(submessage.value, dict) and "confirm" in submessage.value
        )
    return assents(message.text)


def assents(text: str) -> bool | None:
    """The same for plain text."""
    if len(text) > _MAX_READ or "?" in text:
        return None
    said = _folded(text)
    if said in _YES_SET:
        return True
    if said in _NO_SET:
        return False
    clauses = [_folded(clause) for clause in _CLAUSES.split(text)]
    clauses = [clause for clause in clauses if clause and clause not in _POLITE_SET]
    if clauses and all(clause in _YES_SET for clause in clauses):
        return True
    return False if clauses and all(clause in _NO_SET for clause in clauses) else None


def is_cancel(text: str) -> bool:
    """Whether a whole message is a cancellation: "Please stop.", "I want to cancel"."""
    if len(text) > _MAX_READ:
        return False
    clauses = [clause for clause in _CLAUSES.split(text) if _folded(clause) not in _REASON_SET]
    said = _without_polite(_folded(" ".join(clauses).replace("?", "").replace("¿", "")))
    opener, said = _without_opener(said)
    if "?" in text and opener != "request":
        return False
    said = _without_polite(said)
    bare = " ".join(word for word in said.split() if word not in _BESIDE_CANCEL)  # "hör bitte auf"
    return said in _cancellations() or bare in _cancellations() or _cancels_twice(clauses)


def _cancels_twice(clauses: list[str]) -> bool:
    """Whether every clause is a cancellation: "Never mind, forget I asked"."""
    said = [_without_polite(_folded(clause)) for clause in clauses]
    said = [clause for clause in said if clause and clause not in _BESIDE_CANCEL]
    return len(said) > 1 and all(clause in _cancellations() for clause in said)


def takes_back(message: Message) -> bool:
    """Whether a control message cancels the running turn; checked early, because that turn holds the conversation."""
    part = message.labelled("cancel")
    return (part is not None and part.value is not False) or is_cancel(message.text)


def _without_polite(said: str) -> str:
    for _ in range(4):
        before = said
        for word in _BESIDE_CANCEL:
            said = said.removeprefix(f"{word} ").removesuffix(f" {word}")
        if said == before:
            break
    return said


def _without_opener(said: str) -> tuple[str, str]:
    for kind, openers in (("request", _REQUEST_SET), ("wish", _WISH_SET)):
        for opener in openers:
            if said.startswith(f"{opener} "):
                return kind, said[len(opener) + 1 :]
    return "", said
