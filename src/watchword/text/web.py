"""Web text made to look like what people say: plain letters, few marks, and half the time numbers as words.

Source: merlot-reserve-data spec section 10.
"""

from __future__ import annotations

import re
import unicodedata

import ftfy

__all__ = ["clean_document", "number_words", "ordinal_words", "plain_ascii"]

_MARKUP = re.compile(r"><p>|<p>|<strong>|<br>|<em>|<span>|\[unreadable\]")
_TO_SPACE = str.maketrans({**dict.fromkeys("()[]{}<>^_|~-", " "), "`": "'"})
_REPEATED = re.compile(r"""([-$%&'+,./:;?!@\[\]\\_’"=])\1+""")
_SPELLED = {"&": "and", "/": "slash", "@": "at", "\\": "backslash", "+": "plus", "%": "percent", "=": "equals"}
_OTHER_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D",
     "þ": "th", "Þ": "Th", "ı": "i", "‘": "'", "’": "'", "“": '"', "”": '"', "«": "<<", "»": ">>", "–": "-", "—": "--", "−": "-",
     "×": "x", "÷": "/", "€": "EUR", "£": "PS", "½": " 1/2", "¼": " 1/4", "¾": " 3/4", "…": "...", "™": "(tm)",
     "©": "(c)", "®": "(r)", "•": "*", "·": "*"}
)  # fmt: skip

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_SCALES = ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))

_DOLLARS = re.compile(r"\$(\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.\d+)?(?![\d,]*\d)")
_ORDINAL = re.compile(r"\b(\d{1,12})(?:st|nd|rd|th)\b")
_CLOCK = re.compile(r"(?<![\w:.])([01]?\d|2[0-3]):([0-5]\d)(?![\w:])")
_SMALL = re.compile(r"(?<!\w)(?<!\d[.,:])\d{1,2}(?!\w|[.,:]\d)")


def clean_document(text: str, *, spell_numbers: bool = False) -> str:
    """A document with wrongly decoded letters put right, accents and markup taken off, brackets and dashes as spaces, signs as words.

    Letters of other alphabets than the Latin are left out; the release writes them in Latin letters.
    spell_numbers: dollar amounts (without cents), ordinals, times of day and whole numbers below 100 become words; the release does so for
    half of the documents.
    """
    text = "".join(_emoji_name(letter) for letter in ftfy.fix_text(text))
    text = _MARKUP.sub("", text)
    for _ in range(2):  # what the first round writes may hold dashes and brackets
        text = plain_ascii(text).translate(_TO_SPACE)
    text = _REPEATED.sub(r"\1", text)
    for sign, word in _SPELLED.items():
        text = text.replace(sign, f" {word} ")
    text = " ".join(text.split())
    return _with_number_words(text) if spell_numbers else text


def _emoji_name(letter: str) -> str:
    """A pictograph's name in brackets, in one word; any other letter as it is."""
    is_picture = unicodedata.category(letter) == "So" and (letter >= "\U0001f000" or "☀" <= letter <= "➿")
    name = unicodedata.name(letter, "") if is_picture else ""
    return f"[{re.sub('[^a-z0-9]', '', name.lower())}]" if name else letter


def plain_ascii(text: str) -> str:
    """Latin letters and common marks in ASCII, as Unidecode writes them, which the release uses and which is GPL; all else is left out."""
    return unicodedata.normalize("NFKD", text.translate(_OTHER_LETTERS)).encode("ascii", "ignore").decode("ascii")


def _with_number_words(text: str) -> str:
    text = _DOLLARS.sub(lambda found: _dollars(int(found[1].replace(",", ""))), text)
    text = _ORDINAL.sub(lambda found: ordinal_words(int(found[1])), text)
    text = _CLOCK.sub(lambda found: _clock(int(found[1]), int(found[2])), text)
    return _SMALL.sub(lambda found: number_words(int(found[0])), text)


def _dollars(amount: int) -> str:
    return f"{number_words(amount)} dollar{'s' if amount != 1 else ''}"


def _clock(hour: int, minute: int) -> str:
    minutes = [] if not minute else ["oh", number_words(minute)] if minute < 10 else [number_words(minute)]
    return " ".join([number_words(hour), *minutes])


def number_words(number: int) -> str:
    """A whole number from 0 in words: `forty-five`, `one thousand two hundred`."""
    for scale, name in _SCALES:
        if number >= scale:
            rest = number % scale
            return f"{number_words(number // scale)} {name}" + (f" {number_words(rest)}" if rest else "")
    if number < 20:
        return _ONES[number]
    return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")


def ordinal_words(number: int) -> str:
    """The place of a number from 0 in words: `twenty-first`."""
    words = number_words(number)
    start = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[start:]
    ending = _ORDINALS.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")
    return words[:start] + ending
