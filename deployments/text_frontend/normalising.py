"""English text made ready for hibari's grapheme-to-phoneme rules.

Three steps, each a table: characters are folded into those that the rules can read; what the rules' own
normaliser misreads is written out before it runs; and what it leaves behind is written out after it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_LARGE = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "tn": "trillion",
          "trn": "trillion"}
_DOLLARS = {"US": "U S", "CA": "Canadian", "C": "Canadian", "AU": "Australian", "A": "Australian",
            "NZ": "New Zealand", "HK": "Hong Kong", "S": "Singapore"}
_CURRENCIES = {"₽": "rubles", "₺": "lira", "₴": "hryvnias", "₪": "shekels", "₫": "dong", "₱": "pesos",
               "₦": "naira", "₿": "bitcoin", "฿": "baht", "₸": "tenge", "₵": "cedis", "₾": "lari"}
_UNITS = {"g": "gram", "m": "meter", "L": "liter", "l": "liter", "mL": "milliliter", "dl": "deciliter",
          "cl": "centiliter", "h": "hour", "W": "watt", "V": "volt", "kV": "kilovolt", "dB": "decibel",
          "kcal": "kilocalorie", "kJ": "kilojoule", "ns": "nanosecond", "µs": "microsecond",
          "Wh": "watt hour", "m²": "square meter", "km²": "square kilometer", "cm²": "square centimeter",
          "m³": "cubic meter", "cm³": "cubic centimeter", "ft²": "square foot"}
_RATES = {"m/s": "meters per second", "km/s": "kilometers per second", "ft²": "square feet",
          "kg/m³": "kilograms per cubic meter", "g/L": "grams per liter", "mg/dL": "milligrams per deciliter"}
_PER = {"kg": "kilogram", "lb": "pound", "mo": "month", "month": "month", "hr": "hour", "hour": "hour",
        "day": "day", "wk": "week", "week": "week", "yr": "year", "year": "year", "min": "minute",
        "sec": "second", "person": "person"}
_NUMBERED = {"p.": "page", "Eq.": "equation", "Sec.": "section", "Art.": "article", "Nr.": "number",
             "Tel.": "telephone", "tel.": "telephone", "ext.": "extension", "ca.": "circa"}
_GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta",
          "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi",
          "ο": "omicron", "π": "pi", "ρ": "rho", "σ": "sigma", "ς": "sigma", "τ": "tau", "υ": "upsilon",
          "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega"}
_SIGNS = {
    "№": "number ", "∞": "infinity", "√": "square root of ", "≈": "approximately ", "≠": "not equal to ",
    "≤": "less than or equal to ", "≥": "greater than or equal to ", "‰": "per mille", "∑": "sum of ",
    "∆": "delta ", "∂": "partial ", "∫": "integral of ", "∈": "in ", "℮": "estimated ", "ℓ": "liters",
    "♯": "sharp", "♭": "flat", "∝": "proportional to ",
}
_LOOKALIKES = {"‐": "-", "‑": "-", "⁃": "-", "﹣": "-", "‒": "–", "―": "—", "⸺": "—", "⸻": "—",
               "〜": "~", "ʼ": "'", "ʻ": "'", "′": "'", "‛": "'", "‚": "'", "‹": "'", "›": "'",
               "´": "'", "＇": "'", "″": '"', "„": '"', "‟": '"', "«": '"', "»": '"', "〝": '"',
               "〞": '"', "「": '"', "」": '"', "『": '"', "』": '"', "《": '"', "》": '"',
               "、": ", ", "。": ". ", "｡": ". ", "⁄": "/", "∕": "/", "∙": " ", "⋅": " × ", "∗": "*",
               "∼": "~", "⇒": " → ", "➔": " → ", "➜": " → ", "⟶": " → ", "‥": "…", "⋯": "…",
               "؟": "? ", "؛": "; ", "،": ", ", "۔": ". ", "।": ". ", "॥": ". ", "ß": "ss", "ẞ": "SS",
               "٪": "%", "‽": "?!"}
# Read by the rules below, or by hibari's normaliser.
_KEPT = frozenset("£€¥₹₩¢°§¶±×÷™®©²³µ→…—–−“”‘’").union(_CURRENCIES)


_LATIN = re.compile(r"LATIN (CAPITAL LETTER|SMALL LETTER|LETTER SMALL CAPITAL) ([A-Z])(?: WITH .*)?$")


@lru_cache(maxsize=4096)
def _fold(character: str, letters: frozenset[str]) -> tuple[str, bool]:
    """What is read for a character, and whether it had to be left out."""
    if character in letters or character in _KEPT or " " <= character <= "~":
        return character, False
    if character in _LOOKALIKES:
        return _LOOKALIKES[character], False
    if character in _SIGNS:
        return f" {_SIGNS[character]} ", False
    category = unicodedata.category(character)
    if character.isspace() or category == "Cc":
        return " ", False
    if category[0] in "CM":                # zero-width, lone surrogates, accents that fit no letter
        return "", False
    if category == "Nd":
        return str(unicodedata.decimal(character)), False
    latin = _LATIN.match(unicodedata.name(character, ""))
    if latin:
        return latin[2] if latin[1] == "CAPITAL LETTER" else latin[2].lower(), False
    plain = unicodedata.normalize("NFKD", character)
    if plain != character:
        folded = [_fold(part, letters) for part in plain]
        text = "".join(part for part, _ in folded)
        return (f" {text} " if category in ("No", "So") else text), any(lost for _, lost in folded)
    return " ", category[0] != "P"


def fold(text: str, letters: frozenset[str]) -> tuple[str, str]:
    """Text in the characters that can be read, and those that cannot and were left out, each once.

    ``letters`` are the letters outside ASCII that the grapheme-to-phoneme net knows; other letters with
    diacritics lose them, other forms of a character (full-width, circled, …) become the plain one.
    """
    lost: dict[str, None] = {}

    def plain(found: re.Match[str]) -> str:
        folded, left_out = _fold(found[0], letters)
        if left_out:
            lost[found[0]] = None
        return folded

    text = _ENTITY.sub(lambda found: html.unescape(found[0]), text)
    text = _SUPERSCRIPT.sub(_superscript, unicodedata.normalize("NFC", text))
    # One Greek letter is a symbol; a word of them is not for an English voice to read.
    text = _GREEK_ALONE.sub(lambda found: f" {_GREEK[found[0].lower()]} ", text)
    return _UNUSUAL.sub(plain, text), "".join(lost)


_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_UNUSUAL = re.compile(r"[^ -~]")
_GREEK_ALONE = re.compile(rf"(?<![Ͱ-Ͽἀ-῿])[{''.join(_GREEK)}{''.join(_GREEK).upper()}](?![Ͱ-Ͽἀ-῿])")
_SUPERSCRIPT = re.compile(r"(?P<power>(?<=[\d)])|(?<=\b[^\W\d_]))?[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")


def _superscript(found: re.Match[str]) -> str:
    if found[0] in ("²", "³"):
        return found[0]
    digits = unicodedata.normalize("NFKC", found[0]).replace("−", "-")
    return f"^{digits}" if found["power"] is not None else f" {digits} "


_ADDRESS_SIGNS = {".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", "?": "question mark",
                  "=": "equals", "&": "and", "#": "hash", "%": "percent", "+": "plus", "~": "tilde",
                  ":": "colon", "$": "dollar", "*": "star"}
_ADDRESS_PARTS = re.compile(r"://|[^\W_]+|\S")


def _address(found: re.Match[str]) -> str:
    """A URL or an e-mail address, sign by sign."""
    whole = found[0]
    address = whole.rstrip(".,;:!?)'\"")
    words = []
    for part in _ADDRESS_PARTS.findall(address):
        if part in ("www", "http", "https", "ftp"):
            words.append(" ".join(part.upper()))
        elif part[0].isalnum():
            words.append(part)
        else:
            words.append(_ADDRESS_SIGNS.get(part, ","))
    return f" {' '.join(words)} {whole[len(address):]}"


def _telephone(found: re.Match[str]) -> str:
    groups = ", ".join(" ".join(group) for group in re.findall(r"\d+", found[0]))
    return ("plus " if found[0].startswith("+") else "") + groups


def _money(found: re.Match[str]) -> str:
    """``$2.5bn``, which the rules read without its point."""
    return f"{found[1]}{found[2]} {_LARGE[found[3].lower()]}"


def _large(found: re.Match[str]) -> str:
    return f"{found[1]} {_LARGE[found[2].lower()]}"


def _unit(found: re.Match[str]) -> str:
    number, unit = found[1], found[2]
    if unit in _RATES:
        return f"{number} {_RATES[unit]}"
    return f"{number} {_UNITS[unit]}{'' if number == '1' else 's'}"


def _date(year: str, month: str, day: str) -> str:
    return f"{year}-{month:0>2}-{day:0>2}"


def _any(words: dict[str, str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _rules(*rules: tuple[str, str | Callable[[re.Match[str]], str]]) -> list[Rule]:
    return [(re.compile(pattern), reading) for pattern, reading in rules]


_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_TAGS = "b|i|u|em|strong|p|br|hr|div|span|a|h[1-6]|li|ul|ol|code|pre|sub|sup|speak|break|prosody|voice"
_DOMAINS = "com|org|net|edu|gov|io|co|uk|de|fr|eu|info|biz|us|ca|au|tv|me|ly|ai|dev|app"
BEFORE = _rules(
    # Markup: a link speaks its text, and no bracket is left from which the rules would take phonemes.
    *[(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1")] * 2,       # twice: a picture may be a link
    (rf"</?(?:{_TAGS})(?:\s+[\w:-]+=[^<>]*)?\s*/?>", " "),
    (r"[\[{]", "("), (r"[\]}]", ")"),
    (r"(?m)^\s{0,3}#{1,6}\s+", ""),
    (r"(?<=\w)`(?=\w)", "'"), (r"`", " "),
    (r"[=_*~]{3,}|~~", " "), (r"-{2,}", "—"), (r"[-=]+>", "→"),
    (r">=", " greater than or equal to "), (r"<=", " less than or equal to "), (r"!=", " not equal to "),
    (r"==", "="), (r"~(?=\d)", "about "),
    # Addresses and names with a dot.
    (r"(?i)\b(?:(?:https?|ftp)://|www\.)\S+", _address),
    (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _address),
    (rf"(?i)(?<![\w.@-])(?:[\w-]+\.)+(?:{_DOMAINS})(?![\w-])(?:[/?#]\S*)?", _address),
    (r"\b([^\W\d]\w{2,})\.(?=[a-z])", r"\1 dot "), (r"(?<!\S)\.(?=[^\W\d_]{2})", "dot "),
    (r"\b([A-Z]{2,})\.(?=[A-Z]{2})", r"\1 dot "),
    # Telephone numbers.
    (r"(?<![\w.+-])(?:\+?\d{1,3}[ .-]?)?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])", _telephone),
    (r"(?<![\w.])\+\d{1,3}(?:[ .-]?\(?\d{2,5}\)?){2,5}(?![\w-])", _telephone),
    # Dates.
    (r"\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?", r"\1 at \2 "),
    (r"\b(\d{4})/(\d{1,2})/(\d{1,2})\b", lambda m: _date(m[1], m[2], m[3])),
    (r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?![\d.]*\d)", lambda m: _date(m[3], m[2], m[1])),
    (rf"\b((?:{_MONTHS})[a-z]*\.? \d{{1,2}})[-–](?=\d{{1,2}}\b)", r"\1 to "),
    (r"(?i)(\d(?:\s?[ap]\.?m\.?)?)\s?[-–]\s?(?=\d{1,2}(?::\d\d)?\s?[ap]\.?m\b)", r"\1 to "),
    (r"(?<=:\d\d)\s?[-–]\s?(?=\d{1,2}:\d\d)", " to "),
    (r"(?<=\d) ?(a\.?m|p\.?m|A\.?M|P\.?M)(?:\b(?!\.)|\.(?!\w))", lambda m: f" {m[1][0].upper()}.M."),
    # Money.
    (r"(?<![\d,])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])", lambda m: m[0].replace(",", "")),      # lakhs and crores
    (rf"\b({_any(_DOLLARS)})\$ ?({_NUMBER})", lambda m: f"{m[2]} {_DOLLARS[m[1]]} dollars"),
    (rf"([$£€])({_NUMBER}) ?(bn|mn|trn|tn|[KkMmBb])\b", _money),
    (rf"([{''.join(_CURRENCIES)}]) ?({_NUMBER})", lambda m: f"{m[2]} {_CURRENCIES[m[1]]}"),
    (rf"(?<![\w.,$£€])({_NUMBER}) ?([$£€¥₹₩])(?! ?\d)", r"\2\1"),
    (r"(?<![\w.])[-−](?=[$£€¥]\d)", "minus "), (r"([$£€¥])[-−](?=\d)", r"minus \1"),
    (r"(?<=\d)[-–](?=[$£€]\d)", " to "),
    (rf"[{''.join(_CURRENCIES)}]", lambda m: f" {_CURRENCIES[m[0]]} "),
    (r"(?<!\S)\$(?!\S)", "dollar"), (r"(?<!\S)£(?!\S)", "pound"), (r"(?<!\S)€(?!\S)", "euro"),
    (r"\$(\d{13,})", r"\1 dollars"), (r"£(\d{13,})", r"\1 pounds"), (r"€(\d{13,})", r"\1 euros"),
    (r"([$£€]\d+(?:,\d{3})*\.\d)(?!\d| ?(?:hundred|thousand|[mbtr]+illion))", r"\g<1>0"),
    # Numbers.
    (r"(?<=\d)'(?=\d{3}\b)", ","),
    (r"(\d)\s+(\d{1,2}/\d{1,2})(?![\d/])", r"\1 and \2"),
    (r"(?<=[\d%])\s?[-–](?=\d+(?:\.\d+)?\s?%)", " to "),
    (r"(?<![\w.-])(\d+\.\d+)[-–](?=\d+(?:\.\d+)?(?!\w|-|\.\d))", r"\1 to "),
    (r"(?<![\w.–-])(\d{1,4})[-–](\d{1,4})(?=\.(?!\S))", r"\1 to \2"),
    (r"(?<=\d) ?\* ?(?=\d)", " times "),
    (rf"({_NUMBER}) ?(bn|mn)\b", _large), (r"(\d+\.\d+) ?([MB])\b", _large),
    (rf"(?<=\d)/({_any(_PER)})\b", lambda m: f" per {_PER[m[1]]}"),
    (r"(?<=\d) - (?=\d+(?:\.\d+)? ?=)", " minus "), (r"(?<=[\w)]) ?− ?(?=[\w(])", " minus "), (r"−", "-"),
    (r"(\d)[eE]([-+]?\d+)\b", r"\1 times ten to the power of \2"),
    (r"(\d+)' ?(\d{1,2})\"", r"\1 foot \2"),
    (r"(?<=\d)(?<!\b0) ?[xX] ?(?=\d)", " by "),
    (r"\b(24/7|50/50|20/20)\b", lambda m: m[1].replace("/", " ")),
    (rf"(?<![\w.$£€])({_NUMBER}) ?({_any(_UNITS | _RATES)})(?![\w/²³])", _unit),
    # Abbreviations, and names that no rule would guess.
    (rf"\b({_any(_NUMBERED)}) ?(?=[\d+(])", lambda m: f"{_NUMBERED[m[1]]} "),
    (r"\betc\.(?=[,;:)]| [a-z])", "etc"), (r"\bPh\.?D\b\.?", "P H D"),
    (r"\b([A-GJ])#(?!\w)", r"\1 sharp"), (r"\bCO ?2\b", "C O 2"), (r"\bH ?2 ?O\b", "H 2 O"),
    (r"(?i)'tis\b", "it is"), (r"(?i)'twas\b", "it was"),
)


def _spaced(found: re.Match[str]) -> str:
    return f" {' '.join(found[0])} "


def _commas(found: re.Match[str]) -> str:
    """Digits with commas: a grouped number stays, unless no name is that long; others are a list."""
    digits = found[0].replace(",", "")
    if re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", found[0]):
        return found[0] if len(digits) <= 18 else f" {' '.join(digits)} "
    return re.sub(",+", ", ", found[0])


def _point_zero(found: re.Match[str]) -> str:
    return f"{found[1]} point {' '.join(found[2])}"


def _version(found: re.Match[str]) -> str:
    parts = found[0].split(".")
    return (" dot " if len(parts) == 4 else " point ").join(parts)


AFTER = _rules(
    # A full stop that belongs to an abbreviation, and to the sentence only at its end.
    (r"(?<![\w'])((?:[A-Za-z]\.)*[A-Za-z])\.(?=[\"')\s]*$)", r"\1 ."),
    (r"\b((?:[A-Za-z]\.){2,}[A-Za-z])\.(?=\s)", r"\1"),
    (r"(?<![\d.])\d+(?:\.\d+){2,}", _version),
    (r"(?<![\d.$£€,])(\d+(?:,\d{3})*)\.(\d*0)(?![\d.]*\d)", _point_zero),
    (r"\d+(?:,+\d+)+", _commas),
    (r"(?<![\d.,])(?:0\d+|\d{13,})", _spaced),
    (r"(?<=\d)/(?=\d)", " over "), (r"(?<=\d):(?=\d)", " to "), (r"(?<=\d)'(?=\d)", " "),
    (r"(?<=\d)-(?=\d)", ", "),
)


def rewrite(text: str, rules: list[Rule]) -> str:
    """The text with every rule applied in turn."""
    for pattern, reading in rules:
        text = pattern.sub(reading, text)
    return text
