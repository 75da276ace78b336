"""Simple English questions to statements with a blank, by rule: "what is he doing?" to "he is <mask>".

MERLOT Reserve answers by filling a blank, so a question has to be a statement first. The paper's questions were rewritten by a language
model (merlot-reserve-data spec section 16); these rules are the part of it that needs none. The blank stands for the whole answer: of
"what sport", "how old", "which room" nothing is left; of "how many dogs", "whose car", "what color shirt" the noun is.
"""

from __future__ import annotations

import re

from ..errors import InputError
from .reserve import MASK_TEXT

__all__ = ["BLANK", "statement"]

BLANK = "<mask>"
"""How people write a blank."""

Words = list[str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BE = _words("is are was were am isn't aren't wasn't weren't")
_DO = _words("do does did don't doesn't didn't")
_HAVE = _words("has have had hasn't haven't hadn't")
_MODAL = _words("can could will would shall should may might must can't cannot couldn't won't wouldn't shouldn't")
_AUXILIARIES = _BE | _DO | _HAVE | _MODAL
_QUESTION_WORDS = _words("what who whom whose which where when why how")
_PRONOUNS = _words(
    "i you he she it we they this that these those there someone somebody something everyone everybody everything anyone anybody"
)
_DETERMINERS = _words(
    "a an the this that these those his her its their our my your some any all both each every many several no another "
    "other one two three four five six seven eight nine ten"
)
_PREPOSITIONS = _words(
    "about above across after against along among around as at away back before behind below beneath beside between beyond "
    "by down during for from in inside into like near next of off on onto out outside over past through to together toward "
    "towards under until up upon with within without"
)
_JOINERS = _words("and or but while when because if so since though although where who that which")
_CLAUSES = _words("while when because if since though although")
_ADVERBS = _words("not very so too always often never still again now then here there first last finally really also just")
_NOT_VERBS = _words(
    "building ceiling clothing evening king morning nothing painting ring something spring string thing things anything "
    "everything wedding wing ceremony sibling red bed sled shed hundred"
)
_IRREGULAR = dict(
    pair.split(":")
    for pair in _words(
        "be:was become:became begin:began bend:bent bite:bit blow:blew break:broke bring:brought build:built buy:bought "
        "catch:caught choose:chose come:came cut:cut dig:dug do:did draw:drew drink:drank drive:drove eat:ate fall:fell "
        "feed:fed feel:felt fight:fought find:found fly:flew get:got give:gave go:went grow:grew hang:hung have:had hear:heard "
        "hide:hid hit:hit hold:held keep:kept know:knew lay:laid lead:led leave:left let:let lie:lay light:lit lose:lost "
        "make:made mean:meant meet:met pay:paid put:put read:read ride:rode ring:rang rise:rose run:ran say:said see:saw "
        "sell:sold send:sent set:set shake:shook shoot:shot shut:shut sing:sang sink:sank sit:sat sleep:slept slide:slid "
        "speak:spoke spend:spent spin:spun stand:stood steal:stole stick:stuck strike:struck sweep:swept swim:swam swing:swung "
        "take:took teach:taught tear:tore tell:told think:thought throw:threw understand:understood wake:woke wear:wore "
        "win:won write:wrote"
    )
)
_REGULAR = _words(
    "add answer appear arrive ask attend bake behave believe belong boil call carry celebrate chase chop clap clean climb "
    "close cook cover crash crawl cross crush cry dance decide demonstrate describe dress drop enter explain fill finish "
    "fix fold follow fry grab happen help hug hurt jump kick kiss knock laugh learn lift like listen live look love mix "
    "move need offer open pack paint pass perform pick place play point pose pour practice prepare pull push reach remove "
    "ride roll rub scream shout show skate ski slice smile smell sound stare start stay step stir stop surf talk taste tie "
    "touch try turn use visit wait walk want wash watch wave whisper wipe work wrap wrestle yell"
)
_VERBS = _REGULAR | _IRREGULAR.keys()
_PARTICIPLES = _words(
    "been born broken built caught cut done drawn driven drunk eaten fallen fed found given gone grown held hidden hit hung "
    "kept known left made met put read ridden run said seen sent shot shown sold sung sunk taken thrown told torn woken "
    "won worn written"
)
_SOME = {"any": "some", "anyone": "someone", "anybody": "somebody", "anything": "something"}


def statement(question: str) -> str:
    """A question as a statement with one ``<mask>``; a text that has a blank already is returned as it is.

    "who is singing?" gives "<mask> is singing", "is he running?" gives "<mask>, he is running" (to be answered with yes or no), "why is he
    running?" gives "he is running because <mask>". What stands before the question is kept.

    Raises InputError if there is no question in it, or none that the rules know.
    """
    if BLANK in question.lower() or MASK_TEXT in question:
        return question
    before, words = _last_question(question)
    told = _turn(words) if len(words) > 1 else None
    if told is None:
        raise InputError(f"{' '.join(question.split())[:200]!r}: no rule turns this into a statement; write it as a statement with {BLANK}")
    return " ".join([*before, *told])


def _last_question(text: str) -> tuple[Words, Words]:
    """Words before the last question of a text, and the question's own, without its mark."""
    text = re.sub(r"[\s?!.]+$", "", text.replace("’", "'").strip())
    text = text.lower() if text.isupper() else text
    text = re.sub(
        r"\b(what|who|where|when|why|how|that|there)'(s|re)\b", lambda m: f"{m[1]} {'is' if m[2] == 's' else 'are'}", text, flags=re.I
    )
    words = text.replace("?", ".").split()
    starts = [i for i in range(len(words)) if _starts_question(words, i) and (i == 0 or words[i - 1][-1] in ",.!;:")]
    return (words[: starts[-1]], words[starts[-1] :]) if starts else ([], [])


def _starts_question(words: Words, at: int) -> bool:
    first, second = words[at].lower(), (words[at + 1].lower() if at + 1 < len(words) else "")
    return first in _QUESTION_WORDS | _AUXILIARIES or (first in _PREPOSITIONS and second in _QUESTION_WORDS)


def _turn(words: Words) -> Words | None:
    first = words[0].lower()
    if first in _AUXILIARIES:
        return _yes_or_no(first, words[1:])
    joined = [first] if first in _PREPOSITIONS else []  # "with whom is she talking"
    asked, answer, rest = _asked_for(words[len(joined) :])
    if not rest:
        return None
    at_end = bool(joined) or asked in ("where", "when", "why", "how")
    if not at_end and _is_subject(rest):
        return [*answer, *rest]
    return _inverted(rest, [*joined, *answer], at_end=at_end, asks_action=asked == "what")


def _asked_for(words: Words) -> tuple[str, Words, Words]:
    """The question word, what stands for the answer in the statement, and the rest, which begins with the auxiliary if there is one."""
    asked, rest = words[0].lower(), words[1:]
    if asked == "why":
        return asked, ["because", BLANK], rest
    if asked in ("who", "whom", "where", "when") or not rest:
        return asked, [BLANK], rest
    end = next((i for i, word in enumerate(rest[:6]) if word.lower() in _AUXILIARIES), None)
    if end is not None and any(word.lower() in (_PREPOSITIONS | _JOINERS) - {"of"} for word in rest[:end]):
        end = None  # an auxiliary of another clause: "what falls while he is running"
    if asked == "how" and rest[0].lower() in ("many", "much"):
        return "which", [BLANK, *rest[1:end]] if end is not None else [BLANK], rest[end:] if end is not None else rest[1:]
    if asked == "whose":
        return asked, [BLANK, *rest[:end]] if end is not None else [BLANK], rest[end:] if end is not None else rest
    if end is None:
        named = asked in ("what", "which") and not _finite(rest[0]) and len(rest) > 1 and _finite(rest[1])
        return asked, [BLANK], rest[1:] if named else rest
    kept = rest[1:end] if rest[0].lower() in ("color", "colour") else []
    return ("which" if end and asked == "what" else asked), [BLANK, *kept], rest[end:]


def _is_subject(rest: Words) -> bool:
    """Whether what is asked for does what the rest says ("who is singing"), so that the order of words stays."""
    auxiliary, words = rest[0].lower(), rest[1:]
    if auxiliary not in _AUXILIARIES:
        return not _begins_noun(rest)
    if not words:
        return True
    if auxiliary in _BE:
        return not _begins_noun(words) and (_acts(words[0]) or words[0].lower() in _PREPOSITIONS | _ADVERBS or _acting(words) is None)
    if auxiliary in _HAVE:
        return not (_begins_noun(words) and any(_acts(word) for word in words[_after_noun(words) :]))
    return _verb(words) is None or (auxiliary in _MODAL and words[0].lower() in _VERBS)


def _inverted(rest: Words, answer: Words, *, at_end: bool, asks_action: bool = False) -> Words | None:
    """Subject before auxiliary again, and the answer where the question took it from, or at the end."""
    auxiliary, words = rest[0].lower(), rest[1:]
    if auxiliary not in _AUXILIARIES:  # "what a girl rides"
        return _filled(rest[:-1], rest[-1:], [], answer, asks_action) if _begins_noun(rest) and len(rest) > 1 else None
    if not words:
        return None
    if words[0].lower() == "there":
        return [words[0], auxiliary, *([*words[1:], *answer] if at_end else [*answer, *words[1:]])]
    acting = _predicate(words, answer) if at_end and auxiliary in _BE else _acting(words)
    at = _verb(words) if auxiliary in _DO | _MODAL else acting
    if at is None:
        loose = len(words) > 2 and words[-1].lower() in _PREPOSITIONS and not at_end and auxiliary in _BE
        return [*words[:-1], auxiliary, words[-1], *answer] if loose else [*words, auxiliary, *answer] if auxiliary in _BE else None
    subject, verb, tail = words[:at], words[at : at + 1], words[at + 1 :]
    if auxiliary in _BE and not at_end and tail and not _loose(tail) and tail[0].lower() in _DETERMINERS:
        return [*words, auxiliary, *answer]  # "who is the man holding the baby": nothing is missing, so it asks who that is
    helper = [auxiliary]
    if auxiliary in ("do", "does", "did"):
        helper, verb = [], [_inflected(verb[0], auxiliary)] if not (asks_action and verb[0].lower() == "do") else ["do"]
    if at_end:
        return [*subject, *helper, *verb, *tail, *answer]
    return _filled([*subject, *helper], verb, tail, answer, asks_action)


def _filled(head: Words, verb: Words, tail: Words, answer: Words, asks_action: bool) -> Words:
    if asks_action and verb[0].lower() in ("do", "doing", "done"):
        return [*head, *answer, *tail]
    gap = _loose(tail) or (0 if not tail or tail[0].lower() in _PREPOSITIONS | _JOINERS | _ADVERBS else len(tail))
    return [*head, *verb, *tail[:gap], *answer, *tail[gap:]]


def _yes_or_no(auxiliary: str, words: Words) -> Words | None:
    if auxiliary in _BE and words[0].lower() != "there":
        at = _predicate(words, [])
        told = None if at is None else [*words[:at], auxiliary, *words[at:]]
    else:
        at, told = None, _inverted([auxiliary, *words], [], at_end=True)
    if told is not None and "or" in (word.lower() for word in words):  # "is it a dog or a cat"
        return [*words[:at], auxiliary, BLANK] if at is not None else None
    return told and [f"{BLANK},", *(_SOME.get(word.lower(), word) for word in told)]


def _begins_noun(words: Words) -> bool:
    first = words[0]
    return first.lower() in _DETERMINERS | _PRONOUNS or first.endswith("'s") or first[0].isupper()


def _after_noun(words: Words) -> int:
    """The first place after the shortest subject that the words can begin with."""
    first, second = words[0].lower(), (words[1].lower() if len(words) > 1 else "")
    alone = first in _PRONOUNS and (len(words) < 3 or second in _DETERMINERS | _PREPOSITIONS)
    return 2 if (first in _DETERMINERS and not alone) or first.endswith("'s") else 1


def _acts(word: str) -> bool:
    word = word.lower()
    return word not in _NOT_VERBS and (word in _PARTICIPLES or re.fullmatch(r"\w{2,}(ing|ed)", word) is not None)


def _acting(words: Words) -> int | None:
    """The place of the main verb after a form of be or have: doing, or the last word, or the first that can be one."""
    end = next((i for i, word in enumerate(words) if word.lower() in _CLAUSES), len(words))
    places = [i for i in range(_after_noun(words), end) if _acts(words[i])]
    doing = [i for i in places if words[i].lower() in ("doing", "done")]
    return next(iter(doing or [i for i in places if i == end - 1] or places), None)


def _predicate(words: Words, answer: Words) -> int | None:
    """Where what is said of the subject begins ("the man | happy"); None if all is the subject, which a place or a time is asked of."""
    start = _after_noun(words)
    acting = _acting(words)
    if acting is not None:
        return acting
    if answer == [BLANK]:
        return None
    begins = _PREPOSITIONS | _ADVERBS | _DETERMINERS
    found = next((i for i in range(start, len(words)) if words[i].lower() in begins), len(words) - 1)
    return found if start <= found else None


def _verb(words: Words) -> int | None:
    """The place of the base verb after do or a modal: a known one, or the last word before the first preposition."""
    start = _after_noun(words)
    while start < len(words) and words[start].lower() in _ADVERBS:
        start += 1
    if words[0].lower() in _PRONOUNS - _DETERMINERS:
        return start if start < len(words) else None
    places = [i for i in range(start, len(words)) if words[i - 1].lower() not in _DETERMINERS]
    known = next((i for i in places if words[i].lower() in _VERBS), None)
    end = next((i for i in range(start + 1, len(words)) if words[i].lower() in _PREPOSITIONS | _JOINERS), len(words))
    return known if known is not None else end - 1 if end - 1 in places else None


def _loose(words: Words) -> int:
    """The place after the first preposition that lacks its noun, 0 if none does: "on | while music plays", "up | from the table"."""
    for i, word in enumerate(words):
        last = i + 1 == len(words)
        if word.lower() in _PREPOSITIONS and (last or words[i + 1].lower() in (_PREPOSITIONS | _JOINERS | _ADVERBS) - {"of", "that"}):
            return i + 1
    return 0


def _finite(word: str) -> bool:
    """Whether a word looks like a verb with a subject of its own: a known one in the third person or the past."""
    word = word.lower()
    bases = (word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word))
    return word in _IRREGULAR.values() or any(base in _VERBS for base in bases) or (word.endswith("ed") and _acts(word))


def _inflected(verb: str, auxiliary: str) -> str:
    base = verb.lower()
    if auxiliary == "do":
        return verb
    stem = re.sub(r"(?<=[^aeiou])y$", "i", base)
    if auxiliary == "does":
        return "has" if base == "have" else base + "s" if stem == base and not re.search(r"(s|x|z|ch|sh|o)$", base) else stem + "es"
    if base in _IRREGULAR:
        return _IRREGULAR[base]
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", base):  # stop, grab
        return base + base[-1] + "ed"
    return base + "d" if base.endswith("e") else stem + "ed"
