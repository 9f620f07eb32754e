"""String formats as regular expressions, each inside what `jsonschema`'s format checker accepts.

Sources: RFC 3339 (dates, times, durations), RFC 5321 (mailboxes, the dot-atom form), RFC 1123 (host
names), RFC 4291 (IPv6), RFC 4122 (UUIDs), RFC 3986 (URIs),
RFC 6570 (URI templates).
"""

from __future__ import annotations

_YEAR = r"(?:\d{3}[1-9]|\d{2}[1-9]0|\d[1-9]00|[1-9]000)"
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_DATE = rf"(?:{_YEAR}-{_DAY}|{_LEAP}-02-29)"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,12})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_N = r"\d{1,9}"
_TIMES = rf"T(?:{_N}H(?:{_N}M(?:{_N}S)?)?|{_N}M(?:{_N}S)?|{_N}S)"
_DATES = rf"(?:{_N}Y(?:{_N}M(?:{_N}D)?)?|{_N}M(?:{_N}D)?|{_N}D)"
_DURATION = rf"P(?:{_DATES}(?:{_TIMES})?|{_TIMES}|{_N}W)"

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM})*@{_HOST}"

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H = r"[0-9A-Fa-f]{1,4}"
_LAST = rf"(?:{_H}:{_H}|{_IPV4})"
_IPV6 = "|".join(
    [
        rf"(?:{_H}:){{6}}{_LAST}",
        rf"::(?:{_H}:){{5}}{_LAST}",
        rf"(?:{_H})?::(?:{_H}:){{4}}{_LAST}",
        rf"(?:(?:{_H}:){{0,1}}{_H})?::(?:{_H}:){{3}}{_LAST}",
        rf"(?:(?:{_H}:){{0,2}}{_H})?::(?:{_H}:){{2}}{_LAST}",
        rf"(?:(?:{_H}:){{0,3}}{_H})?::{_H}:{_LAST}",
        rf"(?:(?:{_H}:){{0,4}}{_H})?::{_LAST}",
        rf"(?:(?:{_H}:){{0,5}}{_H})?::{_H}",
        rf"(?:(?:{_H}:){{0,6}}{_H})?::",
    ]
)
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

_HEX = r"%[0-9A-Fa-f]{2}"
_NAME = rf"(?:[A-Za-z0-9._~!$&'()*+,;=-]|{_HEX})"
_PCHAR = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|{_HEX})"
_AUTHORITY = rf"(?:(?:{_NAME}|:)*@)?(?:\[(?:{_IPV6})\]|{_NAME}*)(?::\d*)?"
_PATH = (
    rf"(?://{_AUTHORITY}(?:/{_PCHAR}*)*|/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?|{_PCHAR}+(?:/{_PCHAR}*)*)?"
)
_END = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_URI = rf"[A-Za-z][A-Za-z0-9+.-]*:{_PATH}{_END}"
_SEGMENT = r"(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})"  # without a colon
_RELATIVE = (
    rf"(?://{_AUTHORITY}(?:/{_PCHAR}*)*|/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?|{_SEGMENT}+(?:/{_PCHAR}*)*)?"
)
_URI_REFERENCE = rf"(?:[A-Za-z][A-Za-z0-9+.-]*:{_PATH}|{_RELATIVE}){_END}"
_LETTER = rf"(?:[A-Za-z0-9_]|{_HEX})"  # of a name; the checker wants the first one plain
_VARIABLE = rf"[A-Za-z0-9_]{_LETTER}*(?:\.{_LETTER}+)*(?::[1-9]\d{{0,2}}|\*)?"
_URI_TEMPLATE = (
    rf"(?:[!#$&()*+,./0-9:;=?@A-Z\[\]_a-z~-]|{_HEX}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)

# Regular expression (matched as a whole), and the most characters.
FORMATS: dict[str, tuple[str, int | None]] = {
    "date": (_DATE, None),
    "time": (_TIME, None),
    "date-time": (f"{_DATE}T{_TIME}", None),
    "duration": (_DURATION, None),
    "email": (_EMAIL, 254),
    "hostname": (_HOST, 253),
    "ipv4": (_IPV4, None),
    "ipv6": (_IPV6, None),
    "uuid": (_UUID, None),
    "uri": (_URI, None),
    "uri-reference": (_URI_REFERENCE, None),
    "uri-template": (_URI_TEMPLATE, None),
    "json-pointer": (r"(?:/(?:[^~/]|~[01])*)*", None),
}

# Names that OpenAPI gives to kinds of numbers and encodings of strings. No draft of JSON Schema
# knows them, and validators take no notice; integers keep to their widths all the same.
UNCHECKED = frozenset("int32 int64 float double byte binary password".split())
WIDTHS = {"int32": 31, "int64": 63}  # bits behind the sign

# Patterns that are found in every text that a checker accepts for the format: what may not be of
# the format has none. The others are checked by packages that need not be installed.
WIDE = {
    "date": rf"\A(?:{_DATE})\Z",
    "email": "@",
    "ipv4": rf"\A(?:{_IPV4})\Z",
    "ipv6": ":",
    "uuid": r"\A[\s\S]{8}-",
}
