"""Spanish phrases of control messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SPANISH: Final[Mapping[str, str]] = {
    "polite": "por favor",
    "filler": "gracias | muchas gracias | ok | vale | hola | ahora | ahora mismo | ya | inmediatamente | de "
    "inmediato | a partir de ahora | desde ahora | definitivamente | permanentemente | para "
    "siempre | por completo | completamente | sí | bien | bueno | aquí | simplemente | entonces | "
    "otra vez | de nuevo | buenos días | buenas tardes | en adelante | enseguida | de una vez por "
    "todas | perfecto | muy bien | pues | en realidad | totalmente",
    "of": "de | del",
    "det": "el | la | los | las | este | esta | estos | estas | mi | mis | nuestra | nuestro | nuestros "
    "| nuestras | tu | tus | su | sus | todo el | toda la | todos los | todas las | todos | todas "
    "| toda | un | una | al | entera | entero | cada | vuestra | vuestras | vuestro | "
    "vuestros",
    # Without a question mark these say what somebody can do, and ask for nothing. "¿Podría …?" alone may also mean
    # "could I …?".
    "request_if_asked": "podrías | podría usted | podrían",
    "request_if_polite": "podría | puedes | puede | pueden",
    "request": "quiero que | quisiera que | me gustaría que | te pido que | le pido que | deseo que | le "
    "ruego que | necesito que | haz el favor de | hágame el favor de | sería tan amable de | ten "
    "la bondad de | tenga la bondad de | quisiera pedirte que | les pido que | queremos que | me "
    "gustaría pedirte que | serías tan amable de",
    "want": "quiero | quisiera | me gustaría | deseo | queremos | querría | prefiero | necesito | "
    "quisiéramos | nos gustaría | preferiría | querríamos",
    "will": "voy a | déjame | yo voy a | permíteme",
    "let_us": "vamos a",
    "done": "he terminado | hemos terminado | eso es todo",
    "neg": "no | nunca | jamás | sin | ningún | ninguna | nada | ni | tampoco",
    "erase": "borra | borrar | borre | borres | borren | elimina | eliminar | elimine | elimines | "
    "eliminen | suprime | suprimir | suprima | olvida | olvidar | olvide | olvides | quita | "
    "destruye | destruir | borraras | borrara | borrases | eliminaras | eliminara | olvidaras | "
    "olvidara | bórralo | bórrala | elimínalo | elimínala | elimínalos | bórralos | descarta | "
    "descartar | descarte | destruya | quite | quitar",
    "erased": "borrado | borrada | eliminado | eliminada | borrados | eliminados",
    "talk": "conversación | charla | chat | diálogo",
    "talks": "conversaciones | charlas | chats",
    "session": "sesión",
    "sessions": "sesiones",
    "history": "historial | transcripción | registro",
    "data": "datos | información | datos personales",
    "everything": "todo",
    "said": "lo que te he dicho | lo que he dicho | lo que dije | lo que hemos dicho | lo que te dije | "
    "lo que hemos hablado | lo que le he dicho | lo que he escrito | lo que sabes de mí | lo que "
    "sabes sobre mí | lo que te he contado | lo que hablamos | lo que le dije",
    "messages": "mensaje | mensajes",
    "turns": "turnos | turno | intervenciones",
    "replies": "respuesta | respuestas",
    "end": "cierra | cerrar | cierre | cierres | termina | terminar | termine | termines | finaliza | "
    "finalizar | finalice | acaba | acabar | terminemos | acabemos | cerremos | finalicemos | pon "
    "fin a | ponga fin a | poner fin a | terminaras | cerraras | cerrara | concluye | concluir | "
    "acabe",
    "bye": "adiós | hasta luego | hasta pronto | chao | hasta la vista",
    "i_accept": "acepto | aceptamos | yo acepto | estoy de acuerdo con | estoy de acuerdo | estamos de "
    "acuerdo con | consiento | doy mi consentimiento a | y acepto | y la acepto | y los acepto | "
    "y las acepto | apruebo | doy mi conformidad a | de acuerdo con | acepto expresamente | "
    "consiento en | estoy conforme con | doy mi consentimiento para | doy mi acuerdo a | también "
    "acepto | aceptamos expresamente",
    "accept_verb": "aceptar",
    "have_read": "he leído | hemos leído",
    "policy": "política | políticas | términos | condiciones | condiciones de uso | términos de uso | "
    "normas | términos y condiciones | términos del servicio | condiciones de servicio | reglas",
    "kind:privacy": "política de privacidad | políticas de privacidad | privacidad | protección de datos | "
    "condiciones de privacidad | aviso de privacidad | términos de privacidad",
    "kind:retention": "política de retención | retención",
    "kind:regulatory": "política regulatoria",
    "law": "ley | leyes | jurisdicción | rgpd | legal | legislación | normativa",
    "location": "ubicación | posición | localización",
    "use": "usa | uses | usar | use | utilices | utilizar | utiliza | utilice | considera | usen",
    "look": "compartas | compartir | rastrees | sigas | comparta",
    "remember": "recuerda | recuerde | recordar | recuerdes | ten en cuenta",
    "anonymous": "anónimo | anónima | usuario anónimo | modo anónimo | anónimamente | anonimato | de forma "
    "anónima | de incógnito | el anonimato | incógnito | en el anonimato | en anonimato",
    "stay": "permanecer | ser | seguir siendo | quedarme | seguir | mantenerme | hablar | continuar | conservar el | "
    "mantener el | usar el | estar",
    "make_me": "trátame | tráteme | trátame como | tráteme como | trátame de forma | cambia | cambia a | cambie | "
    "cambie a | cambiar | cambiar a | pasa | pasa a | pase a | activa | activar | active | entra en | mantén el",
    "no_longer": "ya no quiero | ya no deseo | ya no queremos",
    "leave": "sal | salir | salga | sal de | salga de | salir de | sal del | salga del | salir del | "
    "desactiva | desactivar | desactive | abandona | deja | dejar | abandonar | abandone",
    "stop": "detén | para | deja de | pare",
    "on": "activado",
    "off": "desactivado",
    "turn_verb": "pon",
    "keep": "recuerda nuestra | recuerde nuestra | guarda | guarde | guardar | guardes | conserva | conserve "
    "| conservar | conserves | mantén | mantenga | mantener | mantengas | gestiona | gestionar | almacena | "
    "almacenar | almacene",
    "i_keep": "guardo | guardaré | conservo | conservaré | mantendré | gestionaré | yo guardo | yo guardaré "
    "| yo conservo | yo conservaré | yo mantengo | yo mantendré | yo gestiono | yo gestionaré | "
    "almacenaré | yo me encargo",
    "we_keep": "guardemos | guardamos | conservemos | conservamos | mantengamos | guardaremos | conservaremos",
    "you": "tú",
    "both": "los dos | ambos | las dos | ambas partes",
    "self": "yo mismo | yo misma | por mi cuenta | de mi lado | yo | en mi lado",
    "for_me": "por mí | para mí | de tu lado | en tu lado",
    "move": "pasa el | transfiere | entrega",
    "to_me": "a mí",
    "to_you": "a ti | al servidor",
    "context": "contexto",
    "window": "ventana de contexto | ventana de contexto de | ventana",
    "as_context": "como contexto",
    "last": "último | últimos | última | últimas | recientes",
    "only": "solo | sólo | solamente | únicamente | nada más que | exclusivamente",
    "but": "excepto | salvo | menos",
    "limit": "limita | limite | limitar | limites | restringe | reduce | restringir | reduzca | restrinja",
    "make": "fija | establece | pon | haz",
    "send": "envía | envíe | enviar | envíes | envíame | envíeme | manda | mándame | dame | manda me | envíenme",
    "size": "tamaño | longitud | tamaño máximo",
    "to": "a | en",
    "below": "como máximo | como mucho | por debajo de | a lo sumo | menos de | un máximo de | máximo | no "
    "más de | a un máximo de | hasta | no superes | no deben superar | no pueden superar | a como "
    "máximo | inferiores a | de menos de",
    "below_sent": "no me envíes más de | no envíes más de | no me mande más de | no me envíe más de | no envíe "
    "más de | no me mandes más de",
    "can_only": "solo puedo recibir | sólo puedo recibir | solo acepto | no puedo recibir más de | mi "
    "dispositivo solo admite | solo puedo procesar",
    "unit:1": "byte | bytes | octetos | caracteres | carácter",
    "unit:1024": "kb | kib | kilobytes | kilobyte | k",
    "unit:1048576": "mb | mib | megabytes | megabyte",
    "unit:1073741824": "gb | gigabytes",
    "requests": "peticiones | petición | solicitudes | preguntas | llamadas | veces | consultas",
    "per:60": "por segundo | al segundo | cada segundo",
    "per:1": "por minuto | al minuto | cada minuto | / minuto",
    "per:0.016666666666666666": "por hora | a la hora | cada hora",
    "per_message": "por mensaje | por respuesta | cada vez",
    "depth": "profundidad | anidamiento",
    "level": "niveles | nivel",
    "submessages": "submensajes | partes",
    "limits": "límites | límite | tamaño puede tener | qué tamaño | cuántos bytes | cuota | cuotas | tamaño "
    "máximo | restricciones | cómo de grande | limitaciones | cuál es el tamaño | qué tan grande",
    "reply_verb": "responde | responda | responder | contesta | conteste | contestar | habla | respóndeme | "
    "contéstame | escribe | hable | respondas | hables | escriba",
    "in": "en | con | como",
    "i_read": "entiendo | hablo | puedo leer",
    "i_read_only": "solo puedo leer | sólo puedo leer | puedo leer solo | leo solo | solo leo | solo entiendo | "
    "solo hablo | sólo hablo | hablo solo | solo puedo mostrar | mi dispositivo solo muestra | "
    "solo puedo entender | mi dispositivo solo lee | únicamente hablo | únicamente leo | sólo "
    "entiendo",
    "i_cannot_read": "no puedo mostrar | no puedo leer | no entiendo | no puedo ver | no leo | mi dispositivo no "
    "muestra | no puedo reproducir | no puedo visualizar",
    "and": "y | o | e | u",
    "format:text": "texto | texto plano | texto sencillo",
    "format:structured/json": "json",
    "format:structured/html": "html",
    "format:structured/xml": "xml",
    "format:binary/image": "imágenes | imagen | fotos",
    "format:binary/audio": "audio | sonido",
    "format:binary/video": "vídeo | vídeos | video | videos",
    "lang:spanish": "español | castellano",
    "lang:english": "inglés",
    "lang:german": "alemán",
    "lang:french": "francés",
    "lang:italian": "italiano",
    "lang:portuguese": "portugués",
    "lang:dutch": "neerlandés | holandés",
    "lang:polish": "polaco",
    "stream": "streaming | transmisión en continuo | transmite | transmitir | transmita | transmitas | emitas",
    "partial": "respuestas parciales | resultados parciales | mensajes parciales | respuesta parcial",
    "as_they_come": "según lleguen | a medida que lleguen | según vayan llegando | por partes | poco a poco | "
    "paso a paso | a trozos | en trozos",
    "whole_answers": "respuestas completas | respuestas enteras | la respuesta completa | la respuesta entera",
    "this_is": "esta es | es",
    "headless": "headless | sin interfaz",
    "background": "segundo plano | en segundo plano",
    "resume": "reanuda | retoma | continúa con | continúa | retomar | reanudar | continúe con",
    "upload": "subir | subo | sube | cargar | carga",
    "big": "grande | gran | enorme | largo | grandes | pesado",
    "thing": "archivo | archivos | fichero | ficheros | documento | documentos | grabación | adjunto | foto",
    "how_long": "cuánto tiempo | por cuánto tiempo | hasta cuándo | durante cuánto tiempo",
    "how_many": "cuántos | cuántas | con qué frecuencia",
    "which": "qué | cuál | cuáles",
    "share": "comparten | compartís | compartes | venden | comparte | vendéis | ceden | vender",
    "happens": "pasa con | ocurre con | hacen con | haces con | sucede con | ver | acceso a | acceder a | lee | ve",
    "third_parties": "terceros",
    "store_verb": "guardan | almacenan | guardáis | conservan | guardas | conservas | almacenas | guardado | "
    "guardados | almacenados | se guardan | se almacenan | conservados",
    "show": "muéstrame | muestra | muéstreme | enséñame | repite | resume | muestre | lista | resumir | "
    "resúmeme | resuma | resumen | repetir | mostrar | mostrarme | enseñar",
    "so_far": "hemos dicho hasta ahora | hemos dicho | he dicho | hemos hablado | he dicho hasta ahora | "
    "dijimos | hemos hablado hasta ahora",
    "new": "nueva | nuevo | otra",
    "ethics": "ética | ético | declaración ética | éticos | éticas",
    "security": "seguridad | seguro | segura | ecma 434 | perfil de seguridad | cifrado | cifrada | cifran | "
    "encriptada | encriptado | protegida | conexión | cifrados | seguros",
    "login": "inicio sesión | iniciar sesión | contraseña | clave de api | autenticarme | autenticación | "
    "cuenta | quién soy | identificarme | credenciales | me identifico | me autentico | clave api",
    "capable": "qué puedes hacer | qué sabes hacer | capacidades | agente | agentes | ayuda | servicios | "
    "quién eres | habilidades | qué ofreces | puedes ayudarme | ayúdame | funciones | en qué me "
    "puedes ayudar | en qué puedes ayudarme | ayudar | en qué puede ayudarme | comandos | "
    "herramientas | para qué sirves | qué haces | qué ofrecen | en qué me puede ayudar",
    "formats": "formato | formatos | idioma | idiomas | lenguas",
    "support": "admiten | admite | soportan | hablas | entiendes | admites | soporta | hablan",
    "will_send": "me enviarás | me envías",
    "who": "quién",
    "go_anonymous": "oculta mi identidad | oculte mi identidad | no reveles mi identidad | no revele mi identidad "
    "| esconde mi identidad | mantén en secreto mi identidad | no digas quién soy | no diga quién "
    "soy",
    "at_once_whole": "de una vez | de una sola vez | en una sola pieza | en un solo mensaje",
    # Words of questions: known, and in no shape that acts.
    "asking": "es | son | hay | está | están | cómo | dónde | cuándo | por qué | puedo | podemos | tengo | "
    "tienen | tiene | con | se | aplican | puede tener | debo | existe | existen | que | ha | he "
    "| hacen | cumplen | abiertas | quién | puede ver | en | para | hago | tiene que | hay que | "
    "abierto | posible | permitido | mucho | me | lo | se puede",
    "words_only": "responde solo con | responde sólo con | responda solo con | conteste únicamente | contesta "
    "solo con | responde únicamente con | responde solamente con | conteste solo con | contesta "
    "únicamente | responda únicamente con | usa solo las palabras | utiliza solo las palabras | "
    "contesta solo | responde solo | responda solo | contesta únicamente con | use solo las "
    "palabras | conteste solo | conteste únicamente con | di solo | di solamente | diga solo | "
    "responde exclusivamente con | contesta solamente con | responda solamente con | responde "
    "simplemente | utilice solo las palabras | emplea solo las palabras",
    "words_if_only": "responde con | responda con | contesta con | conteste con",
}
