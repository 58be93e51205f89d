"""French phrases of control messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FRENCH: Final[Mapping[str, str]] = {
    "polite": "s'il te plaît | s'il vous plaît | stp | svp | s'il te plait | s'il vous plait",
    "filler": "merci | merci beaucoup | ok | d'accord | bonjour | salut | maintenant | tout de suite | "
    "immédiatement | dès maintenant | désormais | à partir de maintenant | définitivement | pour "
    "toujours | complètement | entièrement | oui | bien | ici | simplement | en fait | à nouveau "
    "| alors | donc | à l'avenir | bonsoir | parfait | très bien | sans délai | totalement | eh "
    "bien | sans attendre | dorénavant",
    "of": "de | d' | du | des | de la | de l'",
    "det": "le | la | les | l' | ce | cet | cette | ces | mon | ma | mes | notre | nos | ton | ta | tes "
    "| votre | vos | tout l' | tout le | toute la | toutes les | tous les | toutes | toute | tous "
    "| un | une | entière | entier | chaque",
    "request_if_polite": "peux tu | pouvez vous | est ce que tu peux | est ce que vous pouvez",
    "request": "pourrais tu | pourriez vous | veuillez | je veux que tu | je veux que vous | je voudrais que "
    "tu | je voudrais que vous | je souhaite que tu | je souhaite que vous | j'aimerais que tu | "
    "j'aimerais que vous | je te demande de | je vous demande de | merci de | je te prie de | je "
    "vous prie de | je te demande d' | je vous demande d' | merci d' | auriez vous l'amabilité de "
    "| ayez l'amabilité de | ayez la gentillesse de | aurais tu la gentillesse de | auriez vous "
    "la gentillesse de | je vous prie d' | je te prie d' | nous vous demandons de | nous voulons "
    "que vous | on voudrait que vous",
    "want": "je veux | je voudrais | je souhaite | j'aimerais | je désire | nous voulons | nous voudrions "
    "| je préfère | nous souhaitons | je préférerais | j'aimerais bien | je voudrais bien | nous "
    "aimerions | nous préférons | je désirerais",
    "will": "je vais | laisse moi | laissez moi",
    "let_us": "nous allons",
    "done": "j'ai fini | j'ai terminé | nous avons fini | c'est tout",
    "neg": "ne | n' | pas | jamais | aucun | aucune | sans | rien | plus | ni | non | point",
    "erase": "efface | effacer | effacez | effaces | supprime | supprimer | supprimez | supprimes | oublie "
    "| oublier | oubliez | oublies | détruis | détruire | détruisez | effaciez | supprimiez | "
    "jette | jetez | jeter | efface moi | élimine | éliminez | éliminer | effacions | enlève | "
    "enlevez | enlever",
    "erased": "effacée | effacé | supprimée | supprimé | effacées | supprimées | soit supprimée | soit effacée",
    "talk": "conversation | discussion | échange | dialogue | chat",
    "talks": "conversations | discussions",
    "session": "session",
    "sessions": "sessions",
    "history": "historique | transcription | journal",
    "data": "données | informations | données personnelles",
    "everything": "tout",
    "said": "ce que j'ai dit | ce que je t'ai dit | ce que je vous ai dit | ce que nous avons dit | ce "
    "qu' on a dit | ce que nous nous sommes dit | ce que j'ai écrit | ce dont nous avons parlé | "
    "ce que tu sais de moi | ce que vous savez de moi | ce que je t'ai raconté | ce dont on a "
    "parlé | ce que tu sais sur moi",
    "messages": "message | messages",
    "turns": "tours | tour | échanges",
    "replies": "réponse | réponses",
    "end": "ferme | fermer | fermez | termine | terminer | terminez | clos | clore | finis | finir | "
    "arrêter | fermes | termines | mets fin à | mettez fin à | mettre fin à | terminons | "
    "finissons | fermons | arrêtons | finissez | clôture | clôturez | clôturer",
    "bye": "au revoir | adieu | à bientôt | à plus tard | salut à bientôt",
    "i_accept": "j'accepte | nous acceptons | je suis d'accord avec | je suis d'accord | nous sommes d'accord "
    "avec | je consens à | je consens | j'approuve | et je l'accepte | et je les accepte | et "
    "j'accepte | je donne mon accord à | je donne mon consentement à | j'adhère à | je consens "
    "aux | je donne mon accord aux | j'accepte aussi | j'accepte expressément | je donne mon "
    "accord pour | je donne mon consentement aux | je valide | je souscris à | et je l' accepte | "
    "j'accepte donc",
    "accept_verb": "accepter",
    "have_read": "j'ai lu | nous avons lu",
    "policy": "politique | politiques | conditions | conditions d'utilisation | règles | termes | "
    "conditions générales | conditions d'usage | conditions générales d'utilisation | conditions "
    "de service",
    "kind:privacy": "politique de confidentialité | politiques de confidentialité | confidentialité | protection "
    "des données | vie privée | règles de confidentialité | charte de confidentialité | "
    "conditions de confidentialité",
    "kind:retention": "politique de conservation",
    "kind:regulatory": "politique réglementaire",
    "law": "loi | lois | juridiction | rgpd | droit | légal | législation",
    "location": "position | localisation | emplacement",
    "use": "utilise | utilisez | utiliser | utilises | considère | considérez | prends en compte",
    "look": "partage | partagez | suis | suivez | lis | partager",
    "remember": "retiens | retenez | retenir | souviens toi | ne retiens que | ne retenez que | ne garde que "
    "| ne gardez que",
    "anonymous": "anonyme | utilisateur anonyme | mode anonyme | anonymement | anonymat | incognito | de "
    "façon anonyme | de manière anonyme | l'anonymat",
    "stay": "rester | être | demeurer | parler | continuer | préserver | discuter | conserver l'anonymat",
    "make_me": "traite moi | traitez moi | traite moi comme | traitez moi comme | passe | passe en | passe au | "
    "passez en | passez au | passer en | passer au | active | activez | activer | basculer en | bascule en | "
    "basculez en",
    "no_longer": "je ne veux plus | je ne souhaite plus | nous ne voulons plus | je ne désire plus",
    "leave": "quitte | quittez | quitter | désactive | désactivez | désactiver | sors | sortez | sors du | "
    "sortez du | sortir | sortir du",
    "stop": "arrête | arrêtez | cesse de | cessez de | arrête de | arrêtez de | cesse | cessez",
    "on": "activé",
    "off": "désactivé",
    "turn_verb": "mets | mettez",
    "keep": "garde | gardez | garder | gardes | conserve | conservez | conserver | conserves | gère | "
    "gérez | gérer | stocke | stockez | stocker | mémorise | mémorisez | enregistre | enregistrez",
    "i_keep": "je garde | je conserve | je gère | je garderai | je conserverai | je gérerai | je stocke | je m'occupe",
    "we_keep": "gardons | conservons | nous gardons | nous conservons | nous garderons | gérons",
    "you": "toi | tu | vous",
    "both": "tous les deux | toutes les deux | tous deux | ensemble | les deux",
    "self": "moi même | de mon côté | chez moi",
    "for_me": "pour moi | de ton côté | de votre côté | à ma place",
    "move": "transfère | transférez | donne | remets",
    "to_me": "à moi",
    "to_you": "à toi | à vous | au serveur",
    "context": "contexte",
    "window": "fenêtre de contexte | fenêtre de contexte de | fenêtre",
    "as_context": "comme contexte",
    "last": "dernier | derniers | dernière | dernières | récents",
    "only": "seulement | uniquement | exclusivement | rien que | que",
    "but": "sauf | excepté | à part",
    "limit": "limite | limitez | limiter | restreins | restreignez | réduis | réduisez | restreindre | "
    "réduire | limites",
    "make": "fixe | fixez | règle",
    "send": "envoie | envoyez | envoyer | envoie moi | envoyez moi | donne moi | donnez moi | envoies",
    "size": "taille | longueur | taille maximale",
    "to": "à",
    "below": "au maximum | au plus | en dessous de | sous | moins de | maximum | un maximum de | à un "
    "maximum de | pas plus de | jusqu'à | inférieures à | ne dépasse pas | ne dépassez pas | ne "
    "doivent pas dépasser | à au plus | ne doivent pas faire plus de | en dessous des | à moins "
    "de",
    "below_sent": "ne m'envoie pas plus de | ne m'envoyez pas plus de | n'envoie pas plus de | n'envoyez pas plus de",
    "can_only": "je ne peux recevoir que | je ne peux recevoir plus de | je ne peux pas recevoir plus de | je "
    "ne peux traiter que | mon appareil ne peut recevoir que",
    "unit:1": "octet | octets | caractère | caractères | byte | bytes",
    "unit:1024": "ko | kio | kilooctets | kilooctet | kb | k",
    "unit:1048576": "mo | mio | mégaoctets | mégaoctet | mb",
    "unit:1073741824": "go | gio | gigaoctets | gigaoctet",
    "requests": "requêtes | requête | demandes | questions | appels | fois",
    "per:60": "par seconde | à la seconde | chaque seconde",
    "per:1": "par minute | à la minute | chaque minute | / minute",
    "per:0.016666666666666666": "par heure | à l'heure | de l'heure",
    "per_message": "par message | par réponse | à la fois",
    "depth": "profondeur | imbrication",
    "level": "niveaux | niveau",
    "submessages": "sous messages | parties",
    "limits": "limites | limite | quelle taille | combien d' octets | quota | quotas | taille maximale | "
    "taille peut avoir | restrictions | limitations",
    "reply_verb": "réponds | répondez | répondre | écris | écrivez | parle | parlez | réponds moi | répondez "
    "moi | répondes | parles | parle moi | parlez moi",
    "in": "en | par | avec | comme | au format",
    "i_read": "je lis | je comprends | je parle | je peux lire",
    "i_read_only": "je ne peux lire que | je ne lis que | je ne parle que | je ne comprends que | je ne peux "
    "afficher que | mon appareil n'affiche que | je ne peux comprendre que | mon appareil ne lit "
    "que | je lis seulement | je parle uniquement | je parle seulement",
    "i_cannot_read": "je ne peux pas afficher | je ne peux pas lire | je ne comprends pas | je ne lis pas | mon "
    "appareil n'affiche pas | mon appareil ne peut pas afficher | je ne peux pas voir",
    "and": "et | ou",
    "format:text": "texte | texte brut | texte simple",
    "format:structured/json": "json",
    "format:structured/html": "html",
    "format:structured/xml": "xml",
    "format:binary/image": "images | image | photos",
    "format:binary/audio": "audio | son",
    "format:binary/video": "vidéo | vidéos",
    "lang:french": "français",
    "lang:english": "anglais",
    "lang:german": "allemand",
    "lang:spanish": "espagnol",
    "lang:italian": "italien",
    "lang:portuguese": "portugais",
    "lang:dutch": "néerlandais",
    "lang:polish": "polonais",
    "stream": "streaming | diffuse | diffusez | diffuser | flux continu | en continu | streame | streamer | streamez",
    "partial": "réponses partielles | résultats partiels | messages partiels | réponse partielle",
    "as_they_come": "au fur et à mesure | dès qu' elles arrivent | par morceaux | petit à petit | morceau par "
    "morceau | pas à pas",
    "whole_answers": "réponses complètes | réponses entières | la réponse complète | la réponse entière",
    "this_is": "ceci est | c'est",
    "headless": "headless | sans interface",
    "background": "arrière plan | en arrière plan | tâche de fond",
    "resume": "reprends | reprenez | reprendre | continue | poursuis | poursuivre",
    "upload": "téléverser | téléverse | charger | uploader | mettre en ligne | déposer | téléversement",
    "big": "gros | grande | grand | volumineux | énorme | grosse | volumineuse | long | lourd",
    "thing": "fichier | fichiers | document | documents | enregistrement | pièce jointe | photo",
    "how_long": "combien de temps | pendant combien de temps | jusqu'à quand",
    "how_many": "combien | combien de | à quelle fréquence",
    "which": "quel | quelle | quels | quelles",
    "share": "partagez vous | vendez vous | partages tu | transmettez vous | vends tu",
    "happens": "deviennent | advient il | arrive t il | faites vous de | fais tu de | devient | faites vous "
    "avec | fais tu avec | voir | accès à | accéder à | lit | voit",
    "third_parties": "tiers",
    "store_verb": "gardez vous | conservez vous | stockez vous | gardes tu | conserves tu | stockes tu | "
    "conservées | conservée | stockées | conservés | stockés | conservé | stocké | gardés | "
    "enregistrés",
    "show": "montre | montrez | montre moi | montrez moi | répète | résume | affiche | affichez | résumer "
    "| résumez | résumé | récapitule | récapitulez | récapituler | répéter | afficher | montrer",
    "so_far": "qu' avons nous dit | avons nous dit | ai je dit | qu' ai je dit | qu' est ce que nous avons "
    "dit | qu' est ce qu' on a dit | de quoi avons nous parlé",
    "new": "nouvelle | nouveau | autre",
    "ethics": "éthique | éthiques | déclaration éthique",
    "security": "sécurité | sécurisé | sûr | ecma 434 | profil de sécurité | chiffré | sécurisée | chiffrée | "
    "chiffrement | cryptée | connexion | protégée | chiffrées | sûre",
    "login": "me connecter | connecter | mot de passe | clé api | clé d'api | authentification | compte | "
    "qui suis je | m'identifier | m'authentifier | identifiants | connecte",
    "capable": "que sais tu faire | que peux tu faire | que pouvez vous faire | capacités | agent | agents | "
    "aide | services | qui es tu | compétences | aide moi | aidez moi | peux tu m'aider | que "
    "savez vous faire | fonctions | qui êtes vous | en quoi peux tu m'aider | en quoi pouvez vous "
    "m'aider | m'aider | aider | à quoi sers tu | commandes | outils | que fais tu | que proposez "
    "vous | que proposes tu | à quoi servez vous",
    "formats": "format | formats | langue | langues",
    "support": "acceptez vous | parles tu | comprends tu | prenez vous en charge | parlez vous | comprenez "
    "vous | gérez vous",
    "will_send": "m'enverrez vous | m'enverras tu",
    "who": "qui",
    "go_anonymous": "cache mon identité | cachez mon identité | ne révèle pas mon identité | ne révélez pas mon "
    "identité | masque mon identité | masquez mon identité | garde mon identité secrète | gardez "
    "mon identité secrète | ne dis pas qui je suis | ne dites pas qui je suis",
    "at_once_whole": "en une fois | en une seule fois | d'un seul coup | d'un coup | en un seul morceau | en un "
    "seul message",
    # Words of questions: known, and in no shape that acts.
    "asking": "est | sont | suis | ai je | avez vous | y a t il | comment | où | quand | pourquoi | puis je "
    "| pouvons nous | dois je | est ce que | avec | aux | qu' est ce que | s'appliquent | "
    "ouvertes | peut avoir | peut | avoir | disponibles | je | nous | t il | est elle | est il | "
    "sont elles | a t il | qui peut | peut on | en | à | ce | faut il | possible | permis | me | "
    "encore | ouverte",
    "words_only": "réponds seulement par | répondez seulement par | réponds uniquement par | répondez "
    "uniquement par | réponds seulement avec | réponds uniquement avec | ne réponds que par | ne "
    "répondez que par | utilise seulement les mots | utilisez seulement les mots | n'utilise que "
    "les mots | utilise uniquement les mots | utilisez uniquement les mots | répondez seulement "
    "avec | répondez uniquement avec | n'utilisez que les mots | répondez exclusivement par | "
    "réponds exclusivement par | dis seulement | dites seulement | dis juste | réponds simplement "
    "par | répondez simplement par | réponds juste par | limite toi aux mots | emploie seulement "
    "les mots",
    "words_if_only": "réponds par | répondez par",
}
