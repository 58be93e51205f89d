"""The forms of a verb in which people ask for something: imperatives, infinitives, participles and so on. Pure.

A line ``verbs:erase = borrar | cerrar:cierr`` in a file of phrases names verbs by their infinitive; what follows the
colon is a stem that the rules do not give. German ``weg+werfen:wirf:geworfen`` has a prefix that stands apart
("wirf … weg"), English ``throw…away`` a particle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

Forms = dict[str, list[str]]  # by kind: ask, asked, last, done, past, ing, us, i, inverted, it
APART: Final = "…"  # the words before and after it may have others between them

# The tag of each kind of form; kinds that are not here are left out.
TAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "erase": {
        "ask": "erase",
        "last": "erase_last",
        "done": "erased",
        "ing": "erase_ing",
        "us": "erase_us",
        "it": "erase_it",
    },
    "end": {"ask": "end", "last": "end_last", "ing": "end_ing", "us": "end_us", "it": "end"},
    "keep": {
        "ask": "keep",
        "last": "keep_last",
        "us": "we_keep",
        "i": "i_keep",
        "inverted": "keep_inverted",
        "it": "keep",
    },
    "hide": {"ask": "hide", "last": "hide", "it": "hide"},
}
# The values of tags: "¿guardarías …?" is a request only as a question, "löschst du bitte …?" only with "please".
POLITE: Final = {"asked": "if_asked", "polite": "if_polite"}


def tags_of(name: str) -> Mapping[str, str]:
    """The tag of each kind of form of the verbs ``verbs:name``.

    Forms that ask only after "I'd appreciate it if you" or "would you mind" have tags of their own.
    """
    tags = {**TAGS.get(name, {"ask": name, "last": name, "it": name})}
    tags.setdefault("past", f"past:{tags['ask']}")
    tags.setdefault("ing", f"ing:{tags['ask']}")
    for kind, value in POLITE.items():
        tags.setdefault(kind, f"{tags['ask']}:{value}")
    return tags


def english(verb: str) -> Forms:
    verb, _, doubled = verb.partition(":")
    base, _, particle = verb.partition(APART)
    stem = doubled or base.removesuffix("e")
    past = f"{stem}ed"
    forms = {"ask": [base], "ing": [f"{stem}ing"], "done": [past], "past": [past], "i": [f"i {base}", f"i'll {base}"]}
    if not particle:
        return {**forms, "it": [f"{base} it", f"{base} them", f"{base} that"]}
    return {kind: [f"{form}{gap}{particle}" for form in found for gap in (APART, " ")] for kind, found in forms.items()}


def german(verb: str) -> Forms:
    verb, _, irregular = verb.partition(":")
    prefix, _, base = verb.rpartition("+")
    stem = base.removesuffix("n").removesuffix("e")
    imperative, _, participle = irregular.partition(":")
    imperatives = [imperative] if imperative else [stem, f"{stem}e"]
    imperatives += [f"{base} sie", f"{stem}t"]
    apart = f"{APART}{prefix}" if prefix else ""
    infinitive = f"{prefix}zu{base}" if prefix else f"zu {base}"
    done = f"{prefix}{participle or f'ge{stem}t'}"
    you = f"{imperative or stem}{'est' if (imperative or stem)[-1] in 'td' else 'st'}"
    first = [f"ich {form}{apart}" for form in (f"{stem}e", stem)]
    inverted = [] if prefix else [f"{stem}e ich", f"{stem} ich"]
    return {
        "ask": [f"{form}{apart}" for form in imperatives],
        "last": [f"{prefix}{base}", infinitive, f"{prefix}{you}"],
        "polite": [f"{you} du{apart}"],
        "it": [f"{form} {it}{apart}" for form in imperatives[:-2] for it in ("es", "ihn", "sie")],
        "done": [done, f"{done} wird", f"{done} werden", f"{done} haben"],
        "us": [f"{base} wir{apart}"],
        "i": first,
        "inverted": inverted,
    }


_SPANISH_CLITICS: Final = ("me", "nos", "lo", "la", "los", "las", "melo", "mela", "melos", "melas")
_HARD: Final = {"c": "qu", "g": "gu", "z": "c"}  # before e: "toque", "pague", "finalice"


def spanish(verb: str) -> Forms:
    base, _, changed = verb.partition(":")
    stem, ending = base[:-2], base[-2:]
    present = changed or stem
    if ending == "ar":
        soft, firm = _before_e(present), _before_e(stem)
        commands = [f"{present}a", f"{soft}e", f"{soft}en"]
        wishes = [f"{soft}es", f"{firm}éis", f"{stem}aras", f"{stem}ara", f"{stem}ases", f"{stem}ad"]
        ing, done, us = f"{stem}ando", f"{stem}ad", f"{firm}emos"
    else:
        commands = [f"{present}e", f"{present}a", f"{present}an"]
        wishes = [f"{present}as", f"{stem}áis", f"{stem}ieras", f"{stem}iera", f"{stem}{ending[0]}d"]
        ing, done, us = f"{stem}iendo", f"{stem}id", f"{stem}amos"
    ends = ("o", "a", "os", "as")
    conditional = [f"{before}{base}ía{end}" for before in ("", "me ", "nos ") for end in ("s", "is", " usted", "n")]
    return {
        "ask": [*commands, *wishes, base, *(f"se {form}" for form in commands[1:])],
        "asked": conditional,
        "polite": [f"{before}{present}{'as' if ending == 'ar' else 'es'}" for before in ("me ", "nos ")],
        "it": _with_clitics(commands, base, ing),
        "done": [f"{done}{end}" for end in ends] + [f"{be} {done}{end}" for be in ("sea", "sean") for end in ends],
        "us": [us],
        "i": [f"{before}{form}" for form in (f"{present}o", f"{base}é") for before in ("", "yo ", "lo ", "la ")],
    }


def _before_e(stem: str) -> str:
    return stem[:-1] + _HARD.get(stem[-1], stem[-1])


def _with_clitics(commands: list[str], base: str, ing: str) -> list[str]:
    found = [f"{_accented(form)}{clitic}" for form in (*commands[:2], ing) for clitic in _SPANISH_CLITICS]
    found += [f"{base}{clitic}" for clitic in _SPANISH_CLITICS[:6]]
    found += [f"{base[:-2]}{_ACUTE[base[-2]]}r{clitic}" for clitic in _SPANISH_CLITICS[6:]]
    return found


_ACUTE: Final = {"a": "á", "e": "é", "i": "í", "o": "ó", "u": "ú"}


def _accented(word: str) -> str:
    """The word with an accent on its last syllable but one, which keeps the stress there before a clitic."""
    if any(mark in word for mark in _ACUTE.values()):
        return word
    groups: list[list[int]] = []
    for place, letter in enumerate(word):
        if letter in _ACUTE and not (letter == "u" and word[place - 1 : place] == "q"):
            if groups and groups[-1][-1] == place - 1:
                groups[-1].append(place)
            else:
                groups.append([place])
    if len(groups) < 2:
        return word
    group = groups[-2]
    spot = next((place for place in group if word[place] in "aeo"), group[-1])
    return word[:spot] + _ACUTE[word[spot]] + word[spot + 1 :]


def french(verb: str) -> Forms:
    """Verbs in ``-er``; the others are written out in the file of phrases."""
    base, _, changed = verb.partition(":")
    stem = base[:-2]
    present = changed or stem
    soft = {"c": f"{stem[:-1]}ç", "g": f"{stem}e"}.get(stem[-1], stem)  # before o: "effaçons", "partageons"
    i, me = (("j'",), ("m'",)) if base[0] in "aeéèiouh" else (("je ",), ("me ",))
    done = f"{stem}é"
    return {
        "ask": [f"{present}e", f"{present}es", f"{stem}ez", f"{stem}iez", base],
        "polite": [f"{who}{present}e{end}" for who, end in (("tu ", "s"), ("tu me ", "s"))],
        "asked": [f"{before}{present}er{end}" for before in ("", *me) for end in ("ais tu", "iez vous")],
        "past": [f"{soft}ais", f"{stem}iez"],
        "done": [f"{be}{done}{end}" for be in ("", "soit ", "soient ") for end in ("", "e", "s", "es")],
        "us": [f"{soft}ons"],
        "it": [f"{form} {it}" for form in (f"{present}e", f"{stem}ez") for it in ("le", "la", "les", "moi")],
        "i": [f"{who}{form}" for who in i for form in (f"{present}e", f"{present}erai")],
    }


FORMS: Final[Mapping[str, Callable[[str], Forms]]] = {
    "english": english, "german": german, "spanish": spanish, "french": french,
}  # fmt: skip
