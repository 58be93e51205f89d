"""English phrases of control messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ENGLISH: Final[Mapping[str, str]] = {
    "polite": "please | kindly",
    "filler": "ok | okay | hi | hello | hey | thanks | thank you | many thanks | now | just | also | "
    "immediately | right now | right away | at once | from now on | permanently | for good | "
    "forever | completely | entirely | yes | sure | fine | well | of course | here | so far | "
    "from your server | from your servers | back | at a time | each | every | yourself | size of "
    "| length of | today | in future | in the future | simply | go ahead and | then | again | "
    "straight away | actually | so | alright | all right | great | good | dear agent | good "
    "morning | good evening | if you please | as of now | without delay | fully | on second "
    "thought",
    "of": "of",
    "det": "the | this | these | those | my | our | your | all | a | an | it | them | that | whole "
    "| entire | plain | us",
    "request_if_polite": "can you | will you | can you just",
    "request": "could you | would you | could you please | can you please | will you please | i want you to "
    "| i'd like you to | i would like you to | i ask you to | i need you to | i am asking you to "
    "| i request that you | i request you to | could you just | i'd like to ask you to | i would "
    "ask you to | we want you to | we would like you to | would you please | would you kindly | "
    "could you kindly | can you kindly | be so kind as to | be so kind and | i'd love you to | "
    "would you be so kind as to | i'm asking you to | i want that you | we ask you to | we'd like "
    "you to",
    "want": "i want to | i want | i'd like to | i'd like | i would like to | i would like | i wish to | i "
    "need to | i prefer to | i prefer | i'd prefer to | i would prefer to | i'd rather | i would "
    "rather | i need | we want to | we want | we'd like to | we would like to | i would like to "
    "have | i'd like to have | i want to have | i choose to | i'd love to | i would love to | i'd "
    "love | i wish | we need to | we prefer to",
    "will": "i will | i'll | i shall | let me | i'm going to | i am going to",
    "let_us": "let us | let's | we will | we'll | we shall",
    "done": "i am done | i'm done | we are done | we're done | that is all | that's all | that's it | "
    "that is it | i have finished | i'm finished | we are finished",
    "neg": "not | no | never | don't | do not | dont | without | doesn't | does not | won't | nothing | none | nor",
    "erase": "erase | delete | remove | wipe | forget | purge | clear | destroy | get rid of | wipe out | "
    "discard | scrap | trash | throw away | expunge | drop",
    "erased": "erased | deleted | removed | wiped | forgotten | purged | gone | destroyed | cleared | "
    "discarded | expunged | thrown away",
    "talk": "conversation | conversation's | chat's | chat | dialogue | dialog | talk | discussion | exchange",
    "talks": "conversations | chats",
    "session": "session | session's",
    "sessions": "sessions",
    "history": "history | transcript | log | chat history | conversation history",
    "data": "data | personal data | information | personal information | traces",
    "everything": "everything",
    "said": "i said | i have said | i've said | i told you | i have told you | i've told you | we said | "
    "we have said | we talked about | we discussed | we have discussed | what i said | what we "
    "said | what i told you | i wrote | we wrote | what was said | you know about me | you have "
    "about me | you have stored about me | you know of me | you remember about me | i sent you | "
    "i have sent you | i've sent you",
    "messages": "messages | message | my messages",
    "turns": "turns | turn | entries | exchanges | things",
    "replies": "replies | answers | responses | response | results | outputs | every answer | each answer | "
    "your answer | the answer | any answer | every reply | each reply | your reply | the reply | "
    "its answer | my answers",
    "end": "end | close | terminate | finish | quit | stop | conclude | wrap up | hang up",
    "bye": "bye | goodbye | good bye | bye bye | farewell | see you | see you later | bye for now | good "
    "night | take care | talk to you later",
    "i_accept": "i accept | we accept | i agree | we agree | i agree to | we agree to | i consent | i consent "
    "to | we consent to | i hereby accept | i hereby agree to | i hereby consent to | i do accept "
    "| i do agree | i approve | i approve of | we all accept | we all agree | and i accept | and "
    "i agree to | and i agree with | and agree to | and accept | i agree with | we agree with | i "
    "give my consent to | i fully accept | i fully agree to | i'm fine with | i am fine with | i "
    "am ok with | i'm ok with | i hereby agree with | i accept all | i accept both | i therefore "
    "accept | we hereby accept | i approve your | i am in agreement with | i'm in agreement with",
    "accept_verb": "accept | agree to | consent to | agree with",
    "have_read": "i have read | i've read | i read | we have read",
    "policy": "policy | policies | terms | terms and conditions | conditions | terms of use | terms of "
    "service | rules | conditions of use",
    "kind:privacy": "privacy policy | privacy policies | privacy terms | privacy | privacy notice | privacy "
    "statement | data protection policy | privacy rules",
    "kind:retention": "retention policy | retention | retention terms",
    "kind:regulatory": "regulatory policy | regulatory terms | regulatory",
    "kind:attributes": "attribute policy | attributes policy | attributes | attribute",
    "kind:ethics": "ethics policy",
    "law": "law | laws | legal | jurisdiction | gdpr | regulation | regulations | regulatory rules | country's",
    "location": "location | my location | position | whereabouts | my position",
    "use": "use | consider | take into account",
    "look": "track | read | look at | see | share | collect",
    "remember": "remember | only remember | keep in mind",
    "no_longer": "i no longer want to | i no longer wish to | we no longer want to | i don't want to any longer | "
    "i no longer need to",
    "from": "from | out of",
    "anonymous": "anonymous | anonymous user | anonymous caller | anonymous person | anonymously | anonymous "
    "mode | incognito | incognito mode | unnamed | anonymity | without giving my name | not say who i am | "
    "not tell who i am | not say my name | not give my name | not reveal who i am | not reveal my identity | "
    "not to say who i am | not tell you my name | not disclose my name",
    "stay": "stay | remain | be | go | talk | continue | enter | speak | chat anonymously | stay in | go into "
    "| proceed",
    "make_me": "treat me | treat me as | keep me | make me | activate | enable | turn on | make | switch to | "
    "switch into | switch on",
    "leave": "leave | exit | deactivate | disable | switch off | turn off | no longer be | stop being | get out of",
    "stop": "stop | cease",
    "on": "on",
    "off": "off",
    "turn_verb": "turn | switch",
    "keep": "keep | hold | maintain | manage | store | handle | take care of | look after | save | "
    "remember our | keep track of",
    "i_keep": "i keep | i hold | i manage | i maintain | i store",
    "we_keep": "we keep",
    "you": "you",
    "both": "both | we both | both of us",
    "self": "myself | on my side | on my own | at my end | for myself | on my end | locally",
    "for_me": "for me | on your side | at your end | on your end",
    "move": "move | switch | hand | hand over | give | transfer | pass",
    "to_me": "to me | to my side | over to me",
    "to_you": "to you | to the server | to your side",
    "context": "context | memory | the context of our conversation",
    "window": "context window | window | context window of | window of | context window to",
    "as_context": "as context | as the context | for context | for the context | in the context | as your context",
    "last": "last | latest | most recent | previous | past",
    "only": "only | nothing but | exclusively | solely | at all",
    "but": "but | all but | except | everything but",
    "limit": "limit | restrict | cap | reduce",
    "make": "set",
    "send": "send | send me | give me | deliver | write | write me | give",
    "reply_size": "reply size | reply length | maximum reply length | maximum reply size | answer length | "
    "length of your answers",
    "size": "size | message size | length | maximum message size | maximum size | message length",
    "to": "to | at",
    "below": "at most | up to | no more than | not more than | under | below | less than | shorter than | "
    "smaller than | must not exceed | should not exceed | may not exceed | must not be longer "
    "than | must not be larger than | must be shorter than | must be smaller than | must be below "
    "| must be under | should not be longer than | should be shorter than | don't exceed | do not "
    "exceed | maximum | a maximum of | maximum of | never more than | to at most | to a maximum "
    "of | no longer than | no larger than | of at most | of up to | not longer than | not larger "
    "than | must be at most | should be at most | should be under | should be below | should stay below "
    "| should stay under | have to be below | within",
    "below_sent": "don't send me more than | do not send me more than | don't send more than | do not send more "
    "than | never send me more than | never send more than",
    "can_only": "i can only receive | i can only take | i can only handle | i can only read | i can only "
    "process | i only accept | my device can only handle | my device can only receive | my client "
    "can only handle | i cannot receive more than | i can't receive more than | i cannot handle "
    "more than | i can't handle more than | i cannot read more than | i can't read more than | i "
    "can take only | i can receive only | my buffer holds only",
    "unit:1": "byte | bytes | b | character | characters | char | chars | letters",
    "unit:1024": "k | kb | kib | kilobyte | kilobytes | kbyte | kbytes | kibibytes",
    "unit:1048576": "m | mb | mib | megabyte | megabytes | mbyte | mbytes",
    "unit:1073741824": "g | gb | gib | gigabyte | gigabytes",
    "requests": "requests | request | questions | question | calls | call | times",
    "per:60": "per second | a second | each second | every second | / second | / sec | / s | in a second | "
    "per message second",
    "per:1": "per minute | a minute | each minute | every minute | / minute | / min | in a minute | in one minute",
    "per:0.016666666666666666": "per hour | an hour | each hour | every hour | / hour | / h | in an hour",
    "per_message": "per message | a message | per reply | per answer | each message",
    "depth": "depth | nesting | nesting depth",
    "level": "levels | level | nested levels",
    "submessages": "submessages | submessage | parts | sub messages",
    "limits": "limits | maximum allowed | quota | quotas | rate limit | rate limits | how large | how big | "
    "how long can | how long may | how fast | how many bytes | how often | message limit | size "
    "limit | limitations | restrictions | allowed size | maximum | maximum message size",
    "reply_verb": "reply | answer | respond | talk to me | write to me | speak | reply to me | answer me | "
    "reply always | always answer | always reply",
    "in": "in | as | using | with",
    "i_read": "i can read | i read | i understand | i can understand | my device displays | my device shows "
    "| my client reads | i speak | my display shows | i can show | my device reads",
    "i_read_only": "i can only read | i only read | i only understand | i can only understand | i can only show "
    "| i can only display | my device can only display | my device can only show | my client only "
    "reads | i only speak | i can only speak | i accept only | my device only displays | my "
    "device only reads | my client can only read | my client only understands",
    "i_cannot_read": "i cannot read | i can't read | i don't read | i do not read | i cannot show | i can't show | "
    "i cannot display | i can't display | i don't understand | i do not understand | i cannot "
    "understand | i can't understand | i am unable to read | i'm unable to show | my device "
    "cannot display | my device can't display | my device cannot show | my device can't show | i "
    "cannot handle | i can't handle | i cannot see | i can't see | i cannot view | i can't view | "
    "i cannot play | i can't play | my client cannot display",
    "and": "and | or",
    "format:text": "text | plain text | english text",
    "format:structured/json": "json | structured json | structured",
    "format:structured/html": "html | structured html",
    "format:structured/xml": "xml | structured xml",
    "format:binary": "binary | binary data",
    "format:binary/image": "images | image | pictures | photos | graphics",
    "format:binary/audio": "audio | sound",
    "format:binary/video": "video | videos",
    "format:location": "locations",
    "lang:german": "german",
    "lang:french": "french",
    "lang:spanish": "spanish",
    "lang:italian": "italian",
    "lang:portuguese": "portuguese",
    "lang:dutch": "dutch",
    "lang:polish": "polish",
    "lang:russian": "russian",
    "lang:arabic": "arabic",
    "lang:hindi": "hindi",
    "lang:chinese": "chinese | mandarin",
    "lang:japanese": "japanese",
    "lang:korean": "korean",
    "lang:english": "english",
    "stream": "stream | streaming",
    "partial": "partial answers | partial messages | partial results | partial replies | partial responses | "
    "partials | intermediate results",
    "as_they_come": "as they come | as they come in | as they arrive | as it comes | as you go | in pieces | "
    "piece by piece | bit by bit | in parts | chunk by chunk | in chunks | step by step | as you "
    "write them | as you write it | incrementally | progressively | while you write",
    "whole_answers": "complete answers | whole answers | full answers | complete replies | whole replies | full "
    "replies | the complete answer | the whole answer | answers in one piece | the answer in one "
    "piece | final answers",
    "this_is": "this is | run | i am | run in | run this in | it is",
    "headless": "headless",
    "background": "background | in the background",
    "resume": "resume | continue with | pick up | continue where we left | go on with | continue our",
    "upload": "upload | uploads | uploading | out of band",
    "big": "large | big | huge | long",
    "thing": "file | files | binary file | documents | document | recording | recordings | attachment | "
    "attachments | photo | dataset | datasets | pdf | pdfs | binaries",
    "how_long": "how long | for how long",
    "how_many": "how many | how often",
    "which": "which | what | list | what kind of | which kinds of",
    "share": "share | sell | pass on | give away",
    "happens": "happens to | happens with | happen to | do you do with | access to | can see | sees | who "
    "reads | are you doing with",
    "third_parties": "third party | third parties",
    "store_verb": "stored | kept | retain | store my | store our | saved | keep my | recorded | logged",
    "show": "show | show me | repeat | summarise | summarize | tell me | let me see | recap | sum up | "
    "read back | display",
    "so_far": "have we said | have i said | did we say | did i say | have we talked about | did we talk "
    "about | have you said | did you say",
    "new": "open another | another | second | new | parallel",
    "ethics": "ethics | ethical | ethics statement | ethically",
    "security": "security | secure | ecma 434 | security profile | profile | encrypted | safe | encryption | encrypt | "
    "connection | how safe | protected | tls",
    "login": "log in | login | sign in | credential | credentials | api key | bearer | password | account "
    "| who am i | authenticate | authentication | authenticated | register",
    "capable": "capability | capabilities | what can you do | what could you do | what are you able | what do "
    "you do | what does this do | what do you offer | who are you | skill | skills | help | agent | agents | "
    "feature | features | service | services | able to do | good at | your abilities | abilities | commands | "
    "functions | tools | how can you help | what else can you do | what do you know | what can i ask | what "
    "are you for | can i ask you | what you can do | can i use you for | could i use you for | do i use you "
    "for",
    "swarm": "describe your nlip capabilities | what are your nlip capabilities | nlip capabilities",
    "formats": "format | formats | file types | media types | file type | languages | language",
    "support": "support | understand | speak | accept images | handle",
    "will_send": "will you send me | do you send me | will you send | will i get | do i get",
    "go_anonymous": "hide my identity | conceal my identity | keep my identity secret | keep my identity hidden | "
    "keep my name secret | do not reveal my identity | don't reveal my identity | do not reveal "
    "who i am | don't reveal who i am | do not disclose my identity | don't disclose my identity "
    "| don't tell anyone who i am | do not tell anyone who i am",
    "at_once_whole": "in one go | all in one go | in one piece | all at once | in one message | as a whole | once "
    "it is complete | when it is complete",
    # Words of questions: known, and in no shape that acts.
    "asking": "are | is | am | do | does | did | was | were | can i | may i | can we | may we | could i | "
    "how | how do i | where | when | why | who | is there | are there | do you | does it | have | "
    "has | had | do i | can a | be | get | for | in | need | apply | you have | should | must | "
    "will | would | any | there | many | on | i | we | you | to | out | about | me | i have to | "
    "do i have to | open | allowed | possible",
    "words_only": "answer with only the words | reply with only the words | respond with only | answer only "
    "with | reply only with | respond only with | only answer with | only reply with | only respond with | "
    "answer with only | reply with only | answer only | use only the words | only use the words | answer "
    "using only the words | reply using only the words | use only these words | answer only with the words | "
    "reply only with the words | say only | answer with nothing but | restrict your answers to | limit your "
    "vocabulary to | limit your answers to the words | use only the word | just answer | just say | simply "
    "answer | simply say | answer just with | reply just with | answer exclusively with | your answers may "
    "only be | only say | limit your replies to | limit your answers to | only reply | only respond with the "
    "words",
    "words_if_only": "answer with | reply with | respond with | answer",
}
