"""Words that turn a likely act into its opposite, or that aim it at something else. Pure.

"Lift the limit of 500 bytes" has all that "set a limit of 500 bytes" has, and "delete my account" looks like "delete my
chat". A guess (``sabir.agents.control.guesses``) with such words is not proposed. The words of all languages are looked
for in every text, since a short one does not always tell its language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from .lexicon import NUMBER, UNKNOWN, Sentence

# Patterns without accents; an umlaut may be spelled with two letters.
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "more": (
        "more than|or more|at least|minimum|and up|(longer|larger|bigger|greater|higher|faster|wider)|over|beyond|"
        "exceed(s|ing)?|upwards of|any size|unlimited|unrestricted",
        "mehr als|oder mehr|mindestens|wenigstens|mindest\\w+|minimum|(lae?nger|groe?sser|hoe?her|schneller)(e|er|es|"
        "en)?|"
        "ueber|uber|ueberschreit\\w*|uberschreit\\w*|unbegrenzt\\w*|unbeschrankt\\w*|beliebig\\w*",
        "mas de|mas que|o mas|al menos|por lo menos|como minimo|minimo|mas (larg|grand|alt|rapid)\\w+|mayor(es)?|"
        "superior(es)?|ilimitad\\w+|exced\\w+|super(a|ar|e|en|an)|sobrepas\\w+",
        "plus de|plus que|ou plus|au moins|au minimum|minimum|plus (long|grand|haut|eleve|gros|rapide)\\w*|"
        "superieur\\w*|"
        "illimite\\w*|depass\\w+|exced\\w+",
    ),
    "raise": (
        "rais(e|es|ing)|increas(e|es|ing)|doubl(e|es|ing)|tripl(e|es|ing)|quadruple|extend|enlarge|expand|widen|loosen|"
        "relax|lengthen|bump|ease|lax|ignor(e|es|ing)|disregard|bypass",
        "erhoe?h\\w*|verdopp\\w*|verdreifach\\w*|vergroe?sser\\w*|verlae?nger\\w*|erweiter\\w*|steiger\\w*|anheb\\w*|"
        "ausweit\\w*|locker\\w*|ignorier\\w*|umgeh\\w*",
        "sub(e|es|ir|a|an|amos|elo|ela)|aument\\w+|duplic\\w+|duplique\\w*|dobl(a|ar|e|en)|triplic\\w+|ampli(a|ar|e|"
        "en)|"
        "increment\\w+|alarg\\w+|elev(a|ar|e|en)|ignor(a|ar|e|en)",
        "augment\\w+|doubl(e|er|ez|ons)|tripl(e|er|ez)|releve(r|z)?|hausse(r|z)?|agrandi\\w*|elargi\\w*|rallong\\w+|"
        "prolong\\w+|ignore(r|z)?",
    ),
    "undo": (
        "undo(ing)?|lift(s|ing)?|revert|revers(e|ing)|revok(e|ing)|withdraw(ing)?|rescind|repeal|restor(e|ing)|reopen|"
        "cancel(s|ling)?|take back|abolish|annul|reject(ing)?|refus(e|ing)|declin(e|ing)|oppose|resume",
        "aufheb\\w*|heb\\w*|rueckgaengig|ruckgangig|widerruf\\w*|zurueck(nehm|zieh)\\w*|zuruck(nehm|zieh)\\w*|"
        "zurue?ck|wiederherstell\\w*|stornier\\w*|abschaff\\w*|schaff\\w*|aufgehoben|widersprech\\w*|ablehn\\w*|"
        "lehn\\w*|"
        "verweiger\\w*",
        "deshac\\w+|deshaz\\w*|levant\\w+|revert\\w+|reviert\\w+|revoc\\w+|revoque\\w*|anul(a|ar|e|en|es)|restaur\\w+|"
        "restablec\\w+|recuper\\w+|retir(a|ar|e|o|en)|cancel(a|ar|e|en)|rechaz\\w+|deneg\\w+|reabr\\w+",
        "annul(e|er|ez|ons)|lev(e|er|ez)|revoqu\\w+|retablir|retabliss\\w+|restaur\\w+|retir(e|er|ez)|defais|defaire|"
        "defaites|aboli\\w*|refus(e|er|ez|ons)|rejet\\w+|recuper\\w+|rouvr\\w+",
    ),
    "remove": (
        "remov(e|es|ed|ing)|delet(e|es|ed|ing)|drop(ping)?|eliminat(e|ing)|get rid of|ditch|abandon|unset|reset|"
        "scrap|discard|clear|disabl(e|ing)|erase|strike|waive",
        "entfern\\w*|loesch\\w*|losch\\w*|beseitig\\w*|streich\\w*|weg|abschalt\\w*|deaktivier\\w*|raus",
        "quit(a|ar|e|en|es|alo|ala)|elimin\\w+|suprim\\w+|borr(a|ar|e|en)|desactiv\\w+|sac(a|ar)|saque",
        "supprim\\w+|enlev\\w+|effac\\w+|ot(e|er|ez)|desactiv\\w+|vir(e|er|ez)|elimin\\w+",
    ),
    "avoid": (
        "avoid(s|ed|ing)?|without|exclud(e|es|ed|ing)|except(ing)?|apart from|other than|anything but|prevent(s|ing)?|"
        "skip(ping)?|omit(ting)?|hate|dislike|instead of|rather than",
        "vermeid\\w*|ohne|ausser|ausgenommen|verhinder\\w*|verzicht\\w*|ausschliess\\w*|schliess\\w* aus|statt|anstatt|"
        "anstelle|unterlass\\w*|hasse",
        "evit\\w+|sin|excepto|salvo|excluy\\w+|exclui\\w+|impid\\w+|impedir|omit\\w+|en lugar de|en vez de|menos en|"
        "odio",
        "evit\\w+|sans|sauf|excepte|exclu\\w+|hormis|empech\\w+|omet\\w+|au lieu de|plutot que|deteste",
    ),
    "another": (
        "other|others|another|second|third|first|last|previous|yesterday's|today's|"
        "(session|chat|conversation) (of|with) (?!mine|me|you|us|ours|yours|this|the|that)\\w+|\\w+'s (session|chat)",
        "ander(e|er|es|en|em)|zweite\\w*|dritte\\w*|erste[nrs]?|letzte\\w*|vorige\\w*|"
        "(sitzung|session|gesprach|gespraech|chat) (von|mit) (?!mir|dir|uns|euch|ihnen|heute)\\w+",
        "otr(a|o|as|os)|segund[oa]s?|tercer[oa]?|primer[oa]?|ultim[oa]s?|anterior(es)?|"
        "(sesion|conversacion|chat) (de|con) (?!hoy|usted|ustedes|vosotros|mi|ti|esta|este|nosotros)\\w+",
        "autres?|deuxieme|second(e)?|troisieme|premiere?|derniere?s?|precedente?s?|"
        "(session|conversation|discussion|chat) (de|avec) (?!moi|toi|vous|nous|ce|cette)\\w+",
    ),
    "thing": (  # what is erased, if it is not the conversation
        "accounts?|profiles?|files?|photos?|pictures?|images?|documents?|e ?mails?|mails?|sentences?|words?|"
        "paragraphs?|"
        "assumptions?|bookings?|orders?|reservations?|subscriptions?|names?|address(es)?|numbers?|passwords?|contacts?|"
        "notes?|tasks?|events?|items?|carts?|inbox|calendars?|uploads?|attachments?|"
        "(?<!every )(?<!each )(?<!chaque )message|"
        "answer|question|limits?|tables?|rows?|lists?|folders?|apps?|songs?|playlists?|videos?",
        "\\w*konto|\\w*konten|profile?|datei(en)?|fotos?|bild(er)?|dokumente?|e ?mails?|mails?|satz|saetze|satze|wort|"
        "worte?r?|absatz|annahmen?|buchung(en)?|bestellung(en)?|reservierung(en)?|abo(nnement)?s?|namen?|adressen?|"
        "nummern?|passwort|kontakte?|notiz(en)?|aufgaben?|termine?|warenkorb|posteingang|kalender|(?<!jede )nachricht|"
        "antwort|frage|limits?|grenzen?|tabellen?|zeilen?|listen?|ordner|anhang|lied(er)?|videos?",
        "cuentas?|perfil(es)?|archivos?|ficheros?|fotos?|imagen(es)?|documentos?|correos?|e ?mails?|frases?|palabras?|"
        "parrafos?|suposicion(es)?|reservas?|pedidos?|suscripcion(es)?|nombres?|direccion(es)?|numeros?|contrasenas?|"
        "contactos?|notas?|tareas?|eventos?|carrito|calendario|(?<!cada )mensaje|respuesta|pregunta|limites?|tablas?|"
        "filas?|listas?|carpetas?|adjuntos?|cancion(es)?|videos?",
        "comptes?|profils?|fichiers?|photos?|images?|documents?|e ?mails?|courriels?|phrases?|mots?|paragraphes?|"
        "hypotheses?|suppositions?|reservations?|commandes?|abonnements?|noms?|adresses?|numeros?|contacts?|notes?|"
        "taches?|evenements?|panier|calendrier|reponse|question|limites?|tableaux?|lignes?|listes?|"
        "dossiers?|chansons?|videos?",
    ),
    "hiding": (
        "withhold\\w*|hid(e|ing)|conceal\\w*|keep|secret|private|confidential|strip|remov(e|ing)|avoid\\w*|mask|omit",
        "verberg\\w*|verbirg|verschweig\\w*|geheim\\w*|privat|vertraulich|behalt\\w*|vermeid\\w*|entfern\\w*|fur dich|"
        "zurueckhalt\\w*|zuruckhalt\\w*|halt\\w*",
        "ocult\\w+|escond\\w+|secret\\w+|privad\\w+|reserv\\w+|guard\\w+|evit\\w+|omit\\w+|retien\\w+|quit(a|ar|e)|"
        "call\\w+",
        "cach\\w+|masqu\\w+|secret\\w*|prive\\w*|gard\\w+|evit\\w+|omet\\w+|reten\\w+|retien\\w+|dissimul\\w+|tais",
    ),
    "mine": (
        "my|mine|our|ours|all|every|each|these|those",
        "mein(e|en|er|es)?|unser(e|en|er|es)?|alle[nrs]?|jede[nrs]?|diese[nrs]?",
        "mis?|mi[oa]s?|nuestr[oa]s|todos?|todas|cada|est[oa]s",
        "mes|miens?|miennes?|nos|tous|toutes|chaque|ces",
    ),
    "denial": (
        "no|not|never|don't|doesn't|won't|cannot|can't|nobody|isn't",
        "nicht|nie|niemals|kein(e|en|er)?|niemand\\w*|nichts?",
        "no|nunca|jamas|nadie|sin|ningun\\w*|nada",
        "ne|n'|pas|jamais|non|sans|aucun\\w*|personne",
    ),
}  # fmt: skip
# What an act may not have beside it. "more" counts only if no word before it denies it: "no more than 500 bytes".
_OPPOSITES: Final[Mapping[str, tuple[str, ...]]] = {
    "limits": ("more", "raise", "undo", "remove", "avoid"),
    "window": ("more", "undo", "remove"),
    "formats": ("undo", "remove", "avoid"),
    "languages": ("undo", "remove", "avoid"),
    "accept": ("undo", "remove", "avoid"),
    "withhold": ("undo",),
    "stream on": ("undo", "remove", "avoid"),
    "keeper both": ("undo", "avoid"),
    "keeper client": ("undo", "avoid"),
    "keeper server": ("undo", "avoid"),
    "end": ("undo", "avoid", "another"),
    "erase": ("undo", "avoid", "another", "thing"),
}
_WITH_TERMS: Final = frozenset({"limits", "window", "formats", "languages"})
_ENDING: Final = ("erase", "erase_it", "erase_last", "end", "end_last", "vanish", "away_with")
_CONVERSATION: Final = ("talk", "session", "history", "data", "everything", "said", "turns", "clean_slate")


def is_opposed(act: str, words: Sequence[str], sentences: Iterable[Sentence]) -> bool:
    """Whether words ask for the opposite of an act, or name something else as its object."""
    text = _plain(words)
    if any(_asks_opposite(row, text, act) for row in _OPPOSITES.get(act, ())):
        return True
    sentences = list(sentences)
    if act in _WITH_TERMS and any(sentence.has(*_ENDING) for sentence in sentences):
        return True
    if act == "withhold":
        return not _has("denial", text) and not _has("hiding", text)
    return act == "erase" and not _is_conversation(text, sentences)


def _asks_opposite(row: str, text: str, act: str) -> bool:
    found = _pattern(row).search(text)
    if found is None:
        return False
    if row == "more":
        before = text[: found.start()]
        return not (_has("denial", before) or _has("avoid", before))
    return not (row == "avoid" and act == "limits" and _has("more", text[found.end() :]))  # "avoid more than 500 bytes"


def _is_conversation(text: str, sentences: Sequence[Sentence]) -> bool:
    """Whether what is erased is the conversation, or nothing is named: "delete, please"."""
    if any(sentence.has(NUMBER) for sentence in sentences):
        return False
    if any(sentence.has(*_CONVERSATION) for sentence in sentences):
        return True
    unknown = [tag.value for sentence in sentences for tag in sentence.raw if tag.name == UNKNOWN]
    if any(sentence.has("messages") for sentence in sentences):
        others = [word for word in unknown if not _has("mine", _plain([word]))]
        return _has("mine", text) and not others  # not "all messages of Peter"
    return not unknown


def _has(row: str, text: str) -> bool:
    return _pattern(row).search(text) is not None


@cache
def _pattern(row: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w'])(?:{'|'.join(_WORDS[row])})(?![\w'])")


def _plain(words: Iterable[str]) -> str:
    """The words in one line, without accents."""
    letters = unicodedata.normalize("NFD", " ".join(words))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
