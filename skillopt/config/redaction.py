"""Recognises secrets by their format, and personal data."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

HIDDEN: Final = "[redacted]"

_HEAD: Final = r"(?<![A-Za-z0-9])"
_TOKENS: Final = re.compile(
    _HEAD
    + r"(?:"
    + r"|".join(
        (
            r"sk-[A-Za-z0-9_-]{8,}",
            r"[rs]k_(?:live|test|prod)_[A-Za-z0-9]{8,}",
            r"gh[a-z]_[A-Za-z0-9]{16,}",
            r"github_pat_[A-Za-z0-9_]{16,}",
            r"gl[a-z]{2,5}-[A-Za-z0-9_-]{16,}",
            r"glpat-[A-Za-z0-9_-]{8,}",
            r"hf_[A-Za-z0-9]{16,}",
            r"npm_[A-Za-z0-9]{16,}",
            r"pypi-[A-Za-z0-9_-]{16,}",
            r"ya29\.[A-Za-z0-9_-]{8,}",
            r"AIza[A-Za-z0-9_-]{20,}",
            r"GOCSPX-[A-Za-z0-9_-]{16,}",
            r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{12,}",
            r"(?:LTAI|AKID)[A-Za-z0-9]{12,40}",
            r"1//0[A-Za-z0-9_-]{20,}",
            r"xox[a-z]-[A-Za-z0-9-]{8,}",
            r"xapp-[A-Za-z0-9-]{16,}",
            r"whsec_[A-Za-z0-9]{16,}",
            r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
            r"do[opr]_v1_[a-f0-9]{32,}",
            r"dapi[a-f0-9]{32}",
            r"shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{16,}",
            r"(?:gsk|r8|xai|pplx|lin_(?:api|oauth)|figd|ntn|hv[sbr])[_.-][A-Za-z0-9_-]{20,}",
            r"(?:dckr_[po]at|gl(?:sa|c)|sntry[su]|fm2)_[A-Za-z0-9_=+/-]{16,}",
            r"(?:nvapi|PMAK|NR(?:AK|II|JS)|sq0[a-z]{3}|pat-(?:na|eu)1|tvly|HRKU|CFPAT|[ps]k-lf)"
            r"-[A-Za-z0-9_-]{16,}",
            r"(?:fw|tgp_v1|lsv2_(?:pt|sk)|pcsk|e2b|nfp|rnd|napi|sb_secret|pnu|tfp|bkua|CCIP(?:AT|RJ)"
            r"|pscale_(?:tkn|pw|oauth)|ops|secret)_(?=[A-Za-z_-]{0,80}[0-9])[A-Za-z0-9_-]{20,}",
            r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{20,}",
            r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{16,}",
            r"pat[A-Za-z0-9]{14}\.[a-f0-9]{32,}",
            r"(?:xkeysib|pul)-[a-f0-9]{32,}[A-Za-z0-9-]*",
            r"[a-f0-9]{32}-us[0-9]{1,2}(?![A-Za-z0-9])",
            r"[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9_~.-]{31,}",
            r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
            r"tskey-[A-Za-z0-9-]{12,}",
            r"(?:sbp|rubygems)_[a-f0-9]{32,}",
            r"SK[a-f0-9]{32}",
            r"key-[a-z0-9]{32}",
            r"EAA[A-Za-z0-9]{30,}",
            r"AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{24,}",
            r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",
            r"[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
            # Also where it is cut off before its second part.
            r"eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*)*",
        )
    )
    + r")"
)
_PRIVATE: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BEGIN: Final = re.compile(rf"-----BEGIN {_PRIVATE}")
_END: Final = re.compile(rf"-----END {_PRIVATE}")
# A key that was cut off has no end mark: its body is whatever still looks like base64.
# Its lines may be quoted, commented out or in a table.
_REST: Final = re.compile(r"[A-Za-z0-9+/=\s\\:,>|#-]*")
_BREAK: Final = re.compile(r"((?:[\s>|#]|\\[nr])+)")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/=]*")
_SHORTEST_LINE: Final = 16
_AFTER: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:digest|aws4-hmac-sha256|oauth|hawk)\s)[^\n]+",
        r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|api-?key|key|digest"
        r"|aws4-hmac-sha256|oauth|hawk|negotiate|ntlm|bot|sso-key)\s+)?)[^\s\"',}]+",
        # Our own complaint about such a setting is no secret, nor is what is hidden already.
        r"(?i)((?<![A-Za-z0-9])api[-_]key[\"']?\s*[:=]\s*"
        r"(?!should be |unknown key\b|\[redacted\][)\]]*(?:\s|\Z))[\"']?)[^\s\"',}&]+",
        r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}",
        # `Basic` is also an English word: what follows must look encoded.
        r"(?i)(\bbasic\s+)(?=\S*(?:[0-9=+/]|(?-i:[a-z][A-Z])))[A-Za-z0-9+/=]{8,}",
        r"(?i)(\bsig=)[A-Za-z0-9%+/=_-]{8,}",
        r"(?i)(\b(?:Account|SharedAccess)Key=)[^;\s\"']+",
    )
)
_URL_PASSWORD: Final = re.compile(r"(://[^\s/:@]*:)[^\s/]+@")
# A slash in a password should be escaped and often is not; after a port it begins the path.
_URL_PASSWORD_SLASH: Final = re.compile(r"(://[^\s/:@]*:)(?![0-9]{1,5}[/?#])[^\s\"'<>@]{1,200}@")
_WEBHOOK: Final = re.compile(
    r"(?i)(\b(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/)\S+"
)
_URL_USER: Final = re.compile(r"(://)[^\s/@?#]+@")
_VALUE: Final = r"""
    # A quoted value that was cut off ends with its line.
    (?: ["']{3}[^"']+(?:["']{3})?
      | \\+"[^"\\\n]+(?:\\+")? | \\+'[^'\\\n]+(?:\\+')?
      | "(?:[^"\\\n]|\\.)+"? | '(?:[^'\\\n]|\\.)+'?
      # Any other runs to white space: passwords have all kinds of signs, also a quote.
      | (?!\\+["']) (?: [^\s"'] | ["'](?=\w) )+ )
    """
# `PASS: test_login` and `PASS=12` are what tests print.
_SHORT_FORM: Final = r"""
    (?<![a-z0-9]) pass (?! (?<![a-z0-9_.-]pass) (?: ["']?\s*: | \s*=\s*[0-9]{1,5}(?!\w) ) )
    """
_KEYS: Final = rf"""
    (?: password | passwd | passphrase | pwd | passwort | kennwort | mot[ ]de[ ]passe | contraseña
      | senha | пароль | 密码 | 密碼 | パスワード | 비밀번호 | (?<![a-z0-9])pw | {_SHORT_FORM} | jwt
      | secret(?:[-_]?access)?(?:[-_ ]?key)?(?:_base)? | token | credentials?
      | (?:api|access|account|private|auth|encryption|signing|master|ssh|session)[-_ ]?key )
    """
_ASSIGNED: Final = re.compile(
    rf"""(?ix)
    ( (?<![a-z0-9]) [a-z0-9_.-]{{0,40}}? {_KEYS}
      [*_`]{{0,3}} (?:\\*["'])? \s*
      (?: :\s*str(?:ing)?\s*= | := | => | ={{1,3}} | !==? | : | \uff1a ) [*_]{{0,3}} \s*
      (?: [|>][+-]?[ ]*\n\s* )? )
    {_VALUE}
    """
)
_OPTION: Final = re.compile(
    rf"""(?ix)
    ( (?<![\w-]) --? (?:[a-z0-9]{{1,20}}[-_]){{0,3}} {_KEYS} [ \t]+ )
    (?! - | (?:and|or|to|is|was|for|in|with|from|as|flags?|options?)\b )
    {_VALUE}
    """
)
# Names that are also given to harmless values: what they hold has to look like a secret.
_LIKELY: Final = r"(?=[^\s\"',;]{0,80}?[0-9])(?=[^\s\"',;]{0,80}?[A-Za-z])"
_DOUBTFUL: Final = tuple(
    re.compile(rf"(?x) ( (?<![A-Za-z0-9]) {name} ) {value}")
    for name, value in (
        (r"[A-Z0-9_]{0,40}? (?:KEY|AUTH) [ ]?=[ ]? [\"']?", rf"{_LIKELY} [^\s\"',;]{{8,}}"),
        (
            r"(?i: (?:[a-z0-9_.-]{0,20}[_.-])? (?:(?:j|php|asp)?sess(?:ion)?[-_ ]?id|sid) [\"']?"
            r" \s*[:=]\s* [\"']? )",
            rf"{_LIKELY} [^\s\"',;&]{{8,}}",
        ),
        (r"pass [\"']? [ ]?:[ ]? [\"']?", rf"{_LIKELY} [^\s\"',;_./():]{{6,}} (?![_./():])"),
        (
            r"(?i: key|auth ) [\"']? [ ]?[:=][ ]? [\"']?",
            r"(?=[^\s]{0,80}?[0-9]) (?=[^\s]{0,80}?[a-z]) (?=[^\s]{0,80}?[A-Z])"
            r" [A-Za-z0-9+/_=-]{20,} (?![\w.(-])",
        ),
        (
            r"(?i: (?:pin|otp|passcode|cvv2?|cvc2?|(?:verification|security|one-time)[ ]code)"
            r" (?:[- ]?(?:code|number))? (?: \s*[:=]\s* | \s+(?:is|ist|est|es|was)\s+ ) ) [\"']?",
            r"[0-9]{3,8} (?![\w.])",
        ),
    )
)
_LOGIN: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"((?<![\w-])(?:-u|--user|--proxy-user)[ \t=]?[\"']?(?![0-9]+:[0-9])[^\s:\"'/=]{1,64}:)"
        r"[^\s\"']+",
        r"(\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]{0,200}?\s-p)"
        r"(?:\"[^\"\n]+\"?|'[^'\n]+'?|[^\s\"']+)",
        r"(\b(?:ssh|sftp|scp|ftp|rsync)\s[^\n]{0,80}?(?<![\w.:/-])[\w.-]{1,32}:)[^\s@:/]{3,64}(?=@)",
        r"(?i)(/user:[^\s/]{1,64}[ \t]{1,4})(?![/-])\S+",
        r"(?i)(\bnet\s{1,4}use\b[^\n]{0,80}?\\\S{1,80}[ \t]{1,4})[^\s/]\S*(?=[^\n]{0,80}/user:)",
        r"(\bsshpass\s+-p[ \t]*)(?:\"[^\"\n]+\"?|'[^'\n]+'?|[^\s\"']+)",
        r"(?i)((?<![a-z0-9])cookie[\"']?\s*:\s*[\"']?)[^\s\"'][^\n\"']*",
        r"(?i)((?:(?<![\w-])(?:-b|--cookie)[ \t=]|(?<![a-z0-9])cookie\s*=\s*)[\"']?"
        r"(?=[^\s\"';=]{1,64}=))[^\n\"']+",
        r"(?i)((?<![a-z0-9])x-auth[a-z-]{0,20}[\"']?\s*[:=]\s*[\"']?)[^\s\"',}]+",
        r"(?i)(<[a-z0-9_.:-]{0,20}(?:password|secret|token|api[-_]?key)>)[^<\n]{1,200}(?=</)",
        r"(?i)(\bidentified\s{1,4}by\s{1,4}[\"'])[^\"'\n]+",
        # A line of .pgpass: host, port, database, user, password.
        r"(?m)(^[\w.*-]{1,64}:(?:[0-9]{2,5}|\*):[^\s:]{1,64}:[^\s:]{1,64}:)[^\s:]+$",
        rf"(?i)(\b(?:login|user(?:name)?)[: ]\s{{0,4}}[^\s/]{{1,64}}\s{{1,4}}/\s{{1,4}}){_LIKELY}"
        r"\S{6,}",
        # What stands beside the id of a key of AWS.
        r"((?<![A-Z0-9])A(?:KIA|SIA)[A-Z0-9]{12,20}[^A-Za-z0-9+/\n]{1,20})"
        r"[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])",
    )
)
_TOLD: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"((?:密码|密碼|パスワード|비밀번호)(?:是|为|為|は|가|는))[^\s,;\uff0c\u3002\u3001]+",
        r"((?:密码|密碼|パスワード|비밀번호)(?:是|为|為|は|가|는)[\s:\uff1a]{1,3})"
        rf"{_LIKELY}[!-~]{{6,}}",
        # What it is for may stand in between: the API key for prod, the password for root.
        r"(?i)(\b(?:password|passwd|passphrase|passwort|token|secret|api[-_ ]?key)\s{1,4}"
        r"(?:for|of|to|on|at|von|für|de|pour|para)\s{1,4}[^\s:]{1,40}(?:[ ][^\s:]{1,40}){0,3}?"
        rf"(?:\s{{0,4}}[:=]\s{{0,4}}|\s(?:is|was|ist|lautet|est|es)\s{{1,4}})){_LIKELY}\S{{6,}}",
        r"(?i)(\bpassphrase\s{1,4}[\"'])[^\"'\n]{4,}",
        rf"(?i)(\bpassword\s{{1,4}}[\"']){_LIKELY}[^\"'\s]{{6,}}",
        rf"(?i)(\b(?:password|passwort|token|secret)\s{{0,4}}(?:->|\u2192)\s{{0,4}}){_LIKELY}\S{{6,}}",
        r"(?i)(\b(?:password|passphrase|passwort|kennwort|mot de passe|contraseña|senha)\s+"
        r"(?:is|ist|lautet|est|es|é|è|:)\s+)[^\s,;]+",
        # Much is said of tokens: only what looks like one is hidden.
        r"(?i)(\b(?:password|passwort|token|secret|api[-_ ]?key)\s+(?:is|was|to|ist|est|es)\s+)"
        r"(?=[^\s,;]{0,80}?(?:[0-9]|(?-i:[a-z][A-Z])))[^\s,;]{6,}",
        r"(?i)(\b(?:\w{1,20}_)?(?:password|passwd|passphrase|token|secret|secret_access_key"
        r"|api[-_ ]?key)[ \t]+)"
        r"(?=[^\s,;]{0,80}?[0-9])(?=[^\s,;]{0,80}?(?-i:[A-Z]))[^\s,;]{10,}",
    )
)
_CLOSING: Final = ",;)}]`*"
"""Signs at the end of a value that belong to what it stands in."""
_MARK: Final = re.compile(r"(?:[\"']{3}|\\*[\"'])?")
# Names of variables and of what is to be put there; with other letters it is a secret.
_PLACEHOLDER: Final = re.compile(
    r"""(?x)
    (?: \$ (?: [A-Z_][A-Z0-9_]* | [a-z_]+ | [0-9@*] )
      | \$ (?: [{(] | env: | [a-z_]+(?:->|\[) ) .*
      | % (?: [A-Z_][A-Z0-9_]*% | [a-z_]+% | [sdrv] | \( .* )
      | < (?: [a-z_.\ -]* | [A-Z_.\ -]* ) >?
      | \{ (?: \{.* | [a-z_.\ -]* | [A-Z_.\ -]* ) \}?
      | \[redacted .*
      | (?i: none | null | true | false | undefined | str | string ) (?: [^\w-] .* )?
    )
    """
)
_EMAIL: Final = re.compile(
    r"(?<![\w.+-])(?!git@)[\w.+-]{1,64}(?:@|%40|\uff20)(?:[\w-]{1,63}\.){1,8}[A-Za-z][\w-]{1,62}"
)
_PHONE: Final = re.compile(
    r"""(?x)
    (?<![\w.+/=:#-])
    (?: (?:\+|00)[1-9](?=[0-9 ./()-]{7}) [0-9]{0,2} (?:[ ./()-]{1,2}[0-9]{1,9}){1,6}  # +49 30 12
      | \+[1-9][0-9]{7,14}
      | \(?[2-9][0-9]{2}\)?[ .-]?[0-9]{3}[ .-][0-9]{4}         # (555) 123-4567
      | 0[1-9][0-9]{1,4}[ /-][0-9]{3,}(?:[ -][0-9]{1,6}){0,4}   # 030 1234567
      | 0[1-9](?:[ .][0-9]{2}){4}                               # 01 23 45 67 89
    )
    (?![\w-])
    """
)
_CARD: Final = re.compile(r"(?<![\w.-])[2-6](?:[ -]?[0-9]){12,18}(?![\w-])")
_IBAN: Final = re.compile(
    r"(?<!\w)[A-Z]{2}[0-9]{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?(?!\w)"
)
_SOCIAL_SECURITY: Final = re.compile(r"(?<![\w-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])")
_INVISIBLE: Final = re.compile(
    # Sequences that colour a terminal, also as they are written in JSON and in source code.
    r"(?:\x1b|\\(?:x1b|u001b|033|e))\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
_SECRET_CELL: Final = re.compile(rf"(?ix) [a-z0-9_.\ -]{{0,40}}? (?: {_KEYS} | (?<![a-z])pin )")
_CELL: Final = re.compile(
    rf"(?<=[\s*`])(?:{_LIKELY}[^\s`*]{{6,}}|[^\s`*]{{16,}}|[0-9]{{4,}})(?=[\s*`]*\Z)"
)
_CALLED: Final = re.compile(
    r"(?i)(\b(?:tel|telefon|telephone|phone|mobile|handy|fax|call me at|cell)\.?\s*[:=]?\s*)"
    r"\+?[0-9(][0-9 ()./-]{5,20}[0-9]"
)
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_DIGIT: Final = re.compile(r"[0-9]")
_LONG_WORD: Final = 16
_PARTS: Final = re.compile(r"[^A-Za-z0-9]+")
_SHORT_PART: Final = 8
_DATE: Final = re.compile(r"[0-9]{8}")
_LONG_PART: Final = 16
_NAMES_VARIABLE: Final = re.compile(r"(?i)api[-_]?key[-_]?env\Z")
_SECRET_NAME: Final = re.compile(
    r"(?i)(?:(?:api|access|account|private)[-_]?key|token|secret|password|passwd|credentials?)\Z"
)


def redact(text: str) -> str:
    """The text without anything that looks like a secret."""
    return _seen_through(text, _without_secrets)


def _without_secrets(text: str) -> str:
    text = _without_private_keys(text)
    text = _URL_PASSWORD.sub(rf"\1{HIDDEN}@", text)
    text = _URL_PASSWORD_SLASH.sub(rf"\1{HIDDEN}@", text)
    text = _TOKENS.sub(lambda found: HIDDEN if _is_random(found[0]) else found[0], text)
    for pattern in _AFTER:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return text


def _is_random(token: str) -> bool:
    """Whether what begins as a key does goes on as one, and not as words: `sk-learn-tutorial`."""
    return any(
        len(part) >= _LONG_PART or (_DIGIT.search(part) and not _DATE.fullmatch(part))
        for part in _PARTS.split(token)
        if len(part) >= _SHORT_PART
    )


def redact_personal(text: str) -> str:
    """The text without anything that looks like a secret, and without personal data.

    For what people said and programs printed: also hidden is what is assigned to a name such as
    `password`, who logs in in an address, e-mail addresses, and numbers of telephones, cards,
    accounts and social security.
    """
    return _seen_through(text, _without_personal_data)


def _seen_through(text: str, hide: Callable[[str], str]) -> str:
    """What `hide` makes of a text, also where invisible characters are within a secret."""
    plain = _INVISIBLE.sub("", text)
    hidden = hide(plain)
    return text if hidden == plain else hidden


def _without_personal_data(text: str) -> str:
    # Assigned values first: a secret in them may be only a part of what is quoted.
    text = _OPTION.sub(_without_value, _ASSIGNED.sub(_without_value, text))
    for pattern in (*_LOGIN, *_DOUBTFUL):
        text = pattern.sub(rf"\1{HIDDEN}", text)
    text = _without_cells(_without_secrets(text))
    text = _WEBHOOK.sub(rf"\1{HIDDEN}", text)
    text = _URL_USER.sub(rf"\1{HIDDEN}@", text)
    for pattern in _TOLD:
        text = pattern.sub(rf"\1{HIDDEN}", text)
    text = _CARD.sub(lambda found: HIDDEN if _is_card(found[0]) else found[0], text)
    text = _IBAN.sub(lambda found: HIDDEN if _is_account(found[0]) else found[0], text)
    text = _SOCIAL_SECURITY.sub(HIDDEN, text)
    text = _EMAIL.sub(HIDDEN, text)
    text = _PHONE.sub(HIDDEN, text)
    return _CALLED.sub(rf"\1{HIDDEN}", text)


def _without_value(assigned: re.Match[str]) -> str:
    value = assigned[0][len(assigned[1]) :]
    found = _MARK.match(value)
    mark = found[0] if found else ""
    if mark:
        inner, rest = value[len(mark) :].removesuffix(mark), ""
    else:
        inner, rest = _bare(value, is_query=assigned.string[: assigned.start()][-1:] in ("?", "&"))
    if not inner or _PLACEHOLDER.fullmatch(inner):
        return assigned[0]
    return f"{assigned[1]}{mark}{HIDDEN}{mark}{rest}"


def _bare(value: str, *, is_query: bool) -> tuple[str, str]:
    """A value without quotes, and what follows it: in a query, the next parameter."""
    inner, sign, query = value.partition("&") if is_query else (value, "", "")
    bare = inner.rstrip(_CLOSING)
    return bare, f"{inner[len(bare) :]}{sign}{query}"


def _without_cells(text: str) -> str:
    """Tables in which the cell before, or the head of the column, names a secret."""
    lines = text.split("\n")
    columns: list[bool] = []
    for at, line in enumerate(lines):
        if not line.lstrip().startswith("|"):
            columns = []
            continue
        cells = line.split("|")
        named = [_SECRET_CELL.fullmatch(cell.strip(" *`\t\r")) is not None for cell in cells]
        heads = (*columns, *[False] * len(cells))
        lines[at] = "|".join(
            _CELL.sub(HIDDEN, cell) if (before or head) and not own else cell
            for cell, before, head, own in zip(cells, [False, *named], heads, named, strict=False)
        )
        columns = columns or named
    return "\n".join(lines)


def _is_card(number: str) -> bool:
    """Whether its check digit is right (Luhn)."""
    digits = [int(digit) for digit in number if digit.isdigit()][::-1]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_account(number: str) -> bool:
    """Whether the check digits of an IBAN are right (ISO 7064, modulo 97)."""
    plain = number.replace(" ", "")
    return int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1


def _without_private_keys(text: str) -> str:
    """Whole PEM keys, and those of which the beginning or the end is missing."""
    kept: list[str] = []
    at = 0
    while end := _END.search(text, at):
        begin = _BEGIN.search(text, at, end.start())
        before = text[at : end.start() if begin is None else begin.start()]
        kept += [_without_last_lines(before) if begin is None else before, HIDDEN]
        at = end.end()
    while begin := _BEGIN.search(text, at):
        kept += [text[at : begin.start()], HIDDEN]
        rest = _REST.match(text, begin.end())
        at = rest.end() if rest else begin.end()
    return "".join([*kept, text[at:]])


def _without_last_lines(text: str) -> str:
    """A text without the lines of base64 at its end; the very last of them may be short."""
    pieces = _BREAK.split(text)
    if pieces[-1] == "":
        pieces = pieces[:-2]
    lines = 0
    while pieces and _ENCODED.fullmatch(pieces[-1]):
        if lines and len(pieces[-1]) < _SHORTEST_LINE:
            break
        lines += 1
        pieces = pieces[:-2]
    return "".join(pieces) + " " if lines else text


def is_variable_name(text: str) -> bool:
    """Whether a text can be the name of a variable, and does not look like a key itself.

    Names are capitals, in words that are not long or have no digits.
    """
    words = text.split("_")
    return (
        _VARIABLE.fullmatch(text) is not None
        and redact(text) == text
        and not any(len(word) >= _LONG_WORD and _DIGIT.search(word) for word in words)
    )


def names_secret(key: str) -> bool:
    """Whether a setting of this name holds a secret, whatever it looks like."""
    return _SECRET_NAME.search(key) is not None


def shown_value(key: str, text: str) -> str:
    """The value of a setting as a message may show it."""
    if names_secret(key) or (_NAMES_VARIABLE.search(key) and not is_variable_name(text)):
        return HIDDEN
    return redact(text)
