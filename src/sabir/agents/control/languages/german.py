"""German phrases of control messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GERMAN: Final[Mapping[str, str]] = {
    "polite": "bitte",
    "filler": "danke | vielen dank | ok | okay | hallo | jetzt | nun | sofort | gleich | ab jetzt | ab "
    "sofort | dauerhaft | endgültig | vollständig | komplett | ja | gut | gern | gerne | hier | "
    "bisher | mal | doch | einfach | ganz | also | hiermit | künftig | jeweils | dann | wieder | "
    "also gut | prima | super | guten tag | guten morgen | eigentlich | umgehend | unverzüglich | "
    "restlos | ab heute | bitte sehr | so",
    "det": "der | die | das | den | dem | des | dieser | diese | dieses | diesen | diesem | mein | meine "
    "| meinen | meiner | meines | meinem | unser | unsere | unseren | unserer | unserem | dein | "
    "deine | deinen | deiner | deinem | euer | eure | euren | eurer | eurem | ihre | ihren | "
    "ihrer | ihrem | alle | allen | ganze | ganzen | gesamte | gesamten | gesamter | ein | eine | "
    "einen | einer | einem | in den | von den | in | all | im",
    "of": "von",
    "request_if_polite": "kannst du | können sie | könnt ihr | kannst du mir",
    "request": "könntest du | könnten sie | würdest du | würden sie | ich möchte dass du | ich möchte dass "
    "sie | ich will dass du | ich will dass sie | ich möchte dass ihr | ich bitte dich | ich "
    "bitte sie | kannst du bitte | können sie bitte | könntest du bitte | könnten sie bitte | ich "
    "wünsche dass du | ich hätte gern dass du | ich hätte gerne dass du | ich will dass ihr | "
    "würdest du bitte | würden sie bitte | sei so gut und | seien sie so gut und | sei so nett "
    "und | seien sie so freundlich und | ich bitte darum | ich hätte gern dass sie | ich wünsche "
    "mir dass du | ich will bitte dass du",
    "want": "ich möchte | ich will | ich würde gern | ich würde gerne | ich wünsche | wir möchten | wir "
    "wollen | ich hätte gern | ich hätte gerne | ich möchte gern | ich möchte gerne | ich "
    "bevorzuge | ich wünsche mir | ich würde am liebsten | am liebsten würde ich | ich möchte "
    "bitte | ich will bitte",
    "will": "ich werde | lass mich | lassen sie mich",
    "let_us": "lass uns | lasst uns | lassen sie uns | wir werden | wollen wir beide",
    "done": "ich bin fertig | wir sind fertig | das war alles | das ist alles | das war's",
    "neg": "nicht | kein | keine | keinen | nie | niemals | ohne | keinesfalls | keineswegs",
    "erase": "lösche | lösch | löschen sie | entferne | entfernen sie | vergiss | vergessen sie | "
    "vernichte | vernichten sie | lösch bitte | löschen sie bitte | entfern | verwirf | verwerfen "
    "sie | wirf weg | vergessen sie bitte | entferne bitte | entfernen sie bitte",
    # Verbs that stand last; elsewhere they say what somebody does.
    "erase_last": "löschen | löschst | entfernen | entfernst | vergessen | vernichten | zu löschen | zu "
    "vergessen | zu entfernen | verwerfen | wegwerfen | wegwirfst",
    "erased": "gelöscht | entfernt | vernichtet",
    "talk": "gespräch | unterhaltung | chat | dialog | konversation | unterredung",
    "talks": "gespräche | unterhaltungen | chats",
    "session": "sitzung | session",
    "sessions": "sitzungen | sessions",
    "history": "verlauf | gesprächsverlauf | chatverlauf | protokoll | historie | gesprächsprotokoll",
    "data": "daten | angaben | informationen | personenbezogenen daten | persönlichen daten | alle daten",
    "everything": "alles",
    "said": "was ich gesagt habe | was wir gesagt haben | was ich dir gesagt habe | was ich ihnen gesagt "
    "habe | was wir besprochen haben | was ich geschrieben habe | was gesagt wurde | was du über "
    "mich weißt | was sie über mich wissen | was ich dir erzählt habe | was ich ihnen erzählt "
    "habe | was ich erzählt habe | worüber wir gesprochen haben",
    "messages": "nachricht | nachrichten | mitteilungen",
    "turns": "beiträge | beitrag | runden | wortwechsel | züge",
    "replies": "antwort | antworten",
    "end": "beende | beenden sie | schließe | schließen sie | schliesse | beende bitte | beenden sie "
    "bitte | mach schluss mit | schließ",
    "end_last": "beenden | schließen | beendest | zu beenden | schließt | abschließen",
    "bye": "tschüss | tschüs | auf wiedersehen | bis bald | ciao | bis dann | auf wiederhören",
    "i_accept": "ich akzeptiere | wir akzeptieren | ich nehme an | ich willige ein | und ich akzeptiere | und "
    "akzeptiere sie | und akzeptiere | hiermit akzeptiere ich | ja ich akzeptiere | einverstanden "
    "| ich bin einverstanden | wir sind einverstanden | ich bin einverstanden mit | wir sind "
    "einverstanden mit | ich bestätige | ich akzeptiere hiermit | wir akzeptieren hiermit | ich "
    "billige",
    "half_accept": "ich stimme | wir stimmen | hiermit stimme ich | ich bin mit | wir sind mit | und ich stimme "
    "| und stimme | ich erkläre mich mit | ich nehme | wir nehmen | ich willige in | hiermit "
    "nehme ich",
    "accept_rest": "zu | einverstanden | an | ein",
    "accept_verb": "akzeptieren | zustimmen",
    "have_read": "ich habe | wir haben",
    "policy": "richtlinie | richtlinien | bedingungen | nutzungsbedingungen | regeln | geschäftsbedingungen "
    "| agb | vertragsbedingungen | richtlinien gelesen | bedingungen gelesen | "
    "nutzungsbedingungen gelesen",
    "kind:privacy": "datenschutzerklärung | datenschutzrichtlinie | datenschutzrichtlinien | datenschutz | "
    "datenschutzbestimmungen | datenschutzregeln | datenschutzbedingungen | datenschutzerklärung gelesen | "
    "datenschutzrichtlinie gelesen",
    "kind:retention": "aufbewahrungsrichtlinie | speicherfristen",
    "kind:regulatory": "regulatorische richtlinie",
    "law": "gesetz | gesetze | recht | rechtsraum | dsgvo | rechtlich | gerichtsstand",
    "location": "standort | position | aufenthaltsort | ort",
    "use": "verwende | verwenden | verwenden sie | nutze | nutzen | nutzen sie | benutze | benutzen sie "
    "| benutzen | berücksichtige | berücksichtigen",
    "look": "teile | teilen | verfolge | verfolgen sie | speichere meinen",
    "remember": "merke | merk | merken | merken sie | merke dir | merk dir | merken sie sich | dir merken | "
    "dir merkst | erinnere dich an",
    "anonymous": "anonym | anonymen nutzer | anonymen benutzer | anonymen modus | anonymer modus | anonyme | "
    "anonymität | inkognito | anonymen",
    "stay": "bleiben | sein | reden | sprechen | gehe in | bleibe | weitermachen | chatten",
    "make_me": "aktiviere | aktivieren | aktivieren sie | schalte ein | behandle mich | behandeln sie mich | "
    "behandle mich als | behandeln sie mich als | wechseln | wechsle | wechseln sie | wechsle in | wechseln sie in",
    "no_longer": "ich möchte nicht mehr | ich will nicht mehr | ich möchte nicht länger | ich will nicht länger | "
    "wir möchten nicht mehr",
    "leave": "verlasse | verlassen | verlassen sie | deaktiviere | deaktivieren | deaktivieren sie | "
    "abschalten | ausschalten",
    "stop": "hör auf zu | hören sie auf zu | stoppe | stoppen sie | hör auf mit | stoppen",
    "on": "ein | an",
    "off": "aus | ab",
    "turn_verb": "schalte | schalten sie | schalt | stelle | schalten",
    "keep": "behalte | behalten sie | speichere | speichern sie | bewahre | verwalte | verwalten sie | "
    "halte | führe | halten sie",
    "keep_last": "behalten | speichern | aufbewahren | verwalten | halten | führen | sichern | behältst | "
    "speicherst | verwaltest",
    "i_keep": "ich behalte | ich speichere | ich verwalte | ich führe | ich halte | ich bewahre",
    "we_keep": "wir behalten | wir speichern | wir verwalten",
    "you": "du",
    "both": "beide | wir beide | gemeinsam",
    "self": "selbst | selber | auf meiner seite | bei mir",
    "for_me": "für mich | auf deiner seite | bei dir | auf ihrer seite | bei ihnen",
    "move": "übergib | gib | übertrage | übergeben sie | übertragen sie",
    "to_me": "an mich",
    "to_you": "an dich | an den server",
    "context": "kontext | zusammenhang | gesprächskontext",
    "window": "kontextfenster | fenster | kontextfenster von",
    "as_context": "als kontext",
    "last": "letzten | letzte | vorigen | letzter | letztes | neuesten",
    "only": "nur | ausschließlich | lediglich",
    "but": "bis auf | außer",
    "limit": "begrenze | begrenzen | begrenzen sie | beschränke | beschränken | beschränken sie | "
    "limitiere | limitieren | beschränkst",
    "make": "setze | setzen sie",
    "send": "schick | schicke | sende | senden | schicken sie | senden sie | schicken | sende mir | "
    "schick mir | gib mir | schicke mir | senden sie mir | schicken sie mir | sende uns",
    "size": "größe | länge | nachrichtengröße | maximale nachrichtengröße | maximale größe",
    "reply_size": "antwortlänge | maximale antwortlänge",
    "to": "auf",
    "below": "höchstens | maximal | unter | nicht mehr als | nicht länger als | auf höchstens | auf "
    "maximal | unterhalb von | kürzer als | kleiner als | bis zu | dürfen höchstens | nicht "
    "größer als | sollen höchstens | weniger als",
    "can_only": "ich kann nur | ich kann höchstens | ich kann maximal | mein gerät kann nur | ich vertrage nur",
    "receive": "empfangen | verarbeiten | aufnehmen | lang sein",
    "unit:1": "byte | bytes | zeichen",
    "unit:1024": "kb | kib | kilobyte | kilobytes | k",
    "unit:1048576": "mb | mib | megabyte | megabytes",
    "unit:1073741824": "gb | gigabyte",
    "requests": "anfragen | anfrage | fragen | aufrufe | mal",
    "per:60": "pro sekunde | in der sekunde | je sekunde",
    "per:1": "pro minute | in der minute | je minute | / minute",
    "per:0.016666666666666666": "pro stunde | in der stunde | je stunde",
    "per_message": "pro nachricht | je nachricht | pro antwort",
    "depth": "tiefe | verschachtelung | verschachtelungstiefe",
    "level": "ebenen | ebene",
    "submessages": "teilnachrichten | teile | unternachrichten",
    "limits": "grenzen | limits | limit | grenze | obergrenze | begrenzungen | größenbeschränkung | "
    "größenbegrenzung | wie groß | wie gross | wie viele bytes | wie schnell | kontingent | beschränkungen | "
    "höchstgröße | maximale | wie oft | wie lang darf | wie lange darf | wie groß dürfen | wie viel darf",
    "reply_verb": "antworte | antworten sie | antworten | schreibe | schreib | schreiben sie | rede | sprich | "
    "sprechen sie | antworte mir",
    "in": "in | als | mit | auf",
    "i_read": "ich verstehe | ich lese | ich spreche | ich kann",
    "i_read_only": "ich kann nur | ich verstehe nur | ich lese nur | ich spreche nur | mein gerät zeigt nur | "
    "mein gerät kann nur | mein gerät versteht nur",
    "read_rest": "lesen | anzeigen | verstehen | darstellen | sprechen",
    "i_cannot_read": "ich kann keine | ich kann kein | mein gerät kann keine | ich verstehe keine | ich verstehe "
    "kein | mein gerät zeigt keine | ich lese keine",
    "and": "und | oder",
    "format:text": "text | texte | reinen text | klartext",
    "format:structured/json": "json",
    "format:structured/html": "html",
    "format:structured/xml": "xml",
    "format:binary/image": "bilder | bild | fotos",
    "format:binary/audio": "audio | ton",
    "format:binary/video": "video | videos",
    "lang:german": "deutsch",
    "lang:english": "englisch",
    "lang:french": "französisch",
    "lang:spanish": "spanisch",
    "lang:italian": "italienisch",
    "lang:portuguese": "portugiesisch",
    "lang:dutch": "niederländisch",
    "lang:polish": "polnisch",
    "stream": "schalte das streaming ein | schalten sie das streaming ein | streame | streamen | streaming "
    "| streamen sie | strömen | streamst",
    "partial": "teilantworten | teilantworten bekommen | teilantworten erhalten | zwischenergebnisse | "
    "teilergebnisse | teilweise antworten",
    "as_they_come": "stückweise | sobald sie kommen | sobald sie da sind | stück für stück | nach und nach | "
    "schrittweise | häppchenweise | in teilen",
    "whole_answers": "vollständige antworten | ganze antworten | komplette antworten | die vollständige antwort | "
    "die ganze antwort | fertige antworten",
    "this_is": "dies ist | das ist",
    "headless": "headless",
    "background": "hintergrund | hintergrundsitzung",
    "resume": "setze fort | fortsetzen | weiterführen | nimm wieder auf | fahre fort mit",
    "upload": "hochladen | hochzuladen | upload | lade hoch | hoch",
    "big": "große | großes | großen | lange | riesige | grosse | großer | langes | umfangreiche",
    "thing": "datei | dateien | dokument | dokumente | aufnahme | anhang | datensatz | aufzeichnung",
    "how_long": "wie lange | wie lang",
    "how_many": "wie viele | wie oft | wieviele",
    "which": "welche | welches | welcher | was | welchen",
    "share": "gebt | gibst | weiter | verkauft | weitergeben | weitergegeben",
    "happens": "passiert | geschieht | macht | machst | sieht | zugriff auf | werden mit | wer liest | macht ihr mit",
    "third_parties": "dritte | dritten",
    "store_verb": "speichert | speicherst | gespeichert | behaltet | behält | behältst | bewahrt | aufbewahrt | "
    "aufgehoben | bewahrst | aufbewahren | hebst",
    "show": "zeig | zeige | zeigen sie | zeig mir | wiederhole | nenne | nenn | zusammenfassen | fasse | "
    "fass | fassen sie | zusammen | vorlesen | gib mir eine zusammenfassung | zusammenfassung",
    "so_far": "haben wir bisher gesagt | haben wir gesagt | habe ich gesagt | habe ich bisher gesagt | wurde "
    "gesagt | wurde bisher gesagt | haben wir bisher besprochen | haben wir bisher gesprochen | haben wir "
    "gesprochen",
    "new": "neues | neue | weiteres | weitere",
    "ethics": "ethik | ethikerklärung | ethisch | ethische | ethischen",
    "security": "sicherheit | sicher | ecma 434 | sicherheitsprofil | verschlüsselt | sicherheitserklärung | "
    "verbindung | verschlüsselung | geschützt | abgesichert | verschlüsselte",
    "login": "anmelden | melde ich mich an | melde | einloggen | passwort | kennwort | konto | api "
    "schlüssel | wer bin ich | zugangsdaten | logge",
    "capable": "was kannst du | was können sie | was könnt ihr | fähigkeiten | agent | agenten | hilfe | "
    "hilf mir | dienst | dienste | wer bist du | was bietest du | fähigkeit | kannst du mir "
    "helfen | wer sind sie | wobei kannst du | wobei können sie | wobei kannst du mir helfen | "
    "womit kannst du | womit können sie mir helfen | helfen | was machst du | was bieten sie | "
    "funktionen | befehle | werkzeuge | wofür bist du da",
    "formats": "format | formate | sprache | sprachen | dateitypen | dateiformate",
    "support": "unterstützt | unterstützen | verstehst | versteht | sprichst | unterstützt du",
    "will_send": "schickst du mir | schicken sie mir | bekomme ich",
    "who": "wer",
    "go_anonymous": "verbirg meine identität | verbergen sie meine identität | verrate meine identität nicht | "
    "verraten sie meine identität nicht | gib meine identität nicht preis | geben sie meine "
    "identität nicht preis | halte meine identität geheim | halten sie meine identität geheim | "
    "nenne meinen namen nicht",
    "at_once_whole": "am stück | auf einmal | in einem stück | in einem rutsch",
    "below_sent": "schicke mir nicht mehr als | schick mir nicht mehr als | sende mir nicht mehr als | schicken "
    "sie mir nicht mehr als | senden sie mir nicht mehr als",
    # Words of questions: known, and in no shape that acts.
    "asking": "ist | sind | bin | war | hat | haben | habe | habt | hast | gibt es | gibt | wie | wo | wann "
    "| warum | wer | kann ich | darf ich | darf | dürfen | kann | können wir | könnt | brauche "
    "ich | ich | wir | lautet | mit | für | soll | muss | du | sein | heißt | werden | wird | "
    "eine | noch | schon | offen | geöffnet | möglich | erlaubt | denn | auch | man | mich",
    "words_only": "antworte nur mit | antworten sie nur mit | antworte ausschließlich mit | antworten sie "
    "ausschließlich mit | antworte bitte nur mit | antworten sie bitte nur mit | verwende nur die "
    "wörter | benutze nur die wörter | verwenden sie nur die wörter | antworte lediglich mit | "
    "sag nur | nutze nur die wörter | sag einfach | antworte einfach mit | antworte einzig mit | "
    "antworte bitte ausschließlich mit | antworte nur | antworten sie nur | benutzen sie nur die "
    "wörter | beschränke dich auf die wörter",
    "words_if_only": "antworte mit | antworten sie mit",
}
