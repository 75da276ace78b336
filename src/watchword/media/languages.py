"""Whether two language tags mean the same language: "en", "en-US", "eng"; "de", "deu", "ger"."""

from __future__ import annotations

import re

__all__ = ["same_language"]

# ISO 639-1 with the codes of ISO 639-2 (T, and B where it differs), for the languages most often met in captions.
_CODES = (
    "ar ara,bg bul,bn ben,ca cat,cs ces cze,da dan,de deu ger,el ell gre,en eng,es spa,et est,eu eus baq,fa fas per,fi fin,fr fra fre,"
    "gl glg,gu guj,he heb iw,hi hin,hr hrv,hu hun,hy hye arm,id ind in,is isl ice,it ita,ja jpn,ka kat geo,kn kan,ko kor,lt lit,lv lav,"
    "mk mkd mac,ml mal,mr mar,ms msa may,nb nob,nl nld dut,nn nno,no nor,pa pan,pl pol,pt por,ro ron rum,ru rus,sk slk slo,sl slv,"
    "sq sqi alb,sr srp,sv swe,sw swa,ta tam,te tel,th tha,tl tgl fil,tr tur,uk ukr,ur urd,vi vie,zh zho chi"
)
_CANONICAL = {code: codes.split()[0] for codes in _CODES.split(",") for code in codes.split()}


def same_language(one: str, other: str) -> bool:
    """Compare the languages of two tags; region, script and further parts (`en-US`, `en-orig`) do not count."""
    return _canonical(one) == _canonical(other)


def _canonical(tag: str) -> str:
    code = re.split("[-_]", tag.lower(), maxsplit=1)[0]
    return _CANONICAL.get(code, code)
