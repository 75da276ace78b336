"""From the bytes of a text file to its text, for files that do not say which encoding they use."""

from __future__ import annotations

import codecs

__all__ = ["NotTextError", "decode_text"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE_BYTES = 1 << 16


class NotTextError(ValueError):
    """The bytes are not text in the encoding given, or in any that can be told apart."""


def decode_text(data: bytes, *, encoding: str | None = None) -> tuple[str, str, str | None]:
    """Return (text with "\\n" line ends and without byte order mark, name of the encoding, remark or None).

    Tried in this order: `encoding` if given; a byte order mark; UTF-16 without one (every other byte is zero); UTF-8; mostly valid
    UTF-8 with single damaged characters, which become U+FFFD; Windows-1252. The last two are guesses, and the remark says so.

    Raises NotTextError for bytes with zeros that are no UTF-16, and where `encoding` is given and does not fit.
    """
    remark = None
    if encoding is None:
        encoding, remark = _guess(data)
    try:
        text = data.decode(encoding, errors="strict" if remark is None else "replace")
    except (UnicodeDecodeError, LookupError) as error:
        raise NotTextError(f"not text in encoding {encoding}: {error}") from None
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        raise NotTextError("binary data, not text")
    for ending in ("\r\r\n", "\r\n", "\r"):
        text = text.replace(ending, "\n")
    return text, encoding, remark


def _guess(data: bytes) -> tuple[str, str | None]:
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name, None if _decodes(data, name) else f"damaged characters ({name})"
    sample = data[:_SAMPLE_BYTES]
    zeros = (sample[0::2].count(0), sample[1::2].count(0))
    if max(zeros) > 0.2 * len(sample) and min(zeros) < 0.1 * max(zeros):
        return ("utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"), None
    if _decodes(data, "utf-8"):
        return "utf-8", None
    text = data.decode("utf-8", errors="replace")
    num_damaged = text.count("\ufffd")
    num_foreign = sum(character > "\x7f" for character in text) - num_damaged
    if num_foreign > 4 * num_damaged:
        return "utf-8", f"{num_damaged} damaged characters (UTF-8)"
    return "cp1252", "not UTF-8: read as Windows-1252 (cp1252), which is a guess; pass `encoding` if letters are wrong"


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
