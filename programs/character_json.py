"""The JSON object of the SGLang paper's decoding benchmark, about a character of a novel.

A regular expression writes names, quotes and braces: that text is forced, so it is computed in one
pass with what stands beside it, and the model only fills in the values.
"""

import sgc

WORDS = r'"[\w ]{1,16}"'


def one_of(*words):
    return '"(' + "|".join(words) + ')"'


FIELDS = (
    ("name", WORDS),
    ("house", one_of("Gryffindor", "Slytherin", "Ravenclaw", "Hufflepuff")),
    ("blood status", one_of("Pure-blood", "Half-blood", "Muggle-born")),
    ("occupation", one_of("student", "teacher", "auror", "ministry of magic", "death eater")),
    ("wand", rf'\{{"wood": {WORDS}, "core": {WORDS}, "length": [1-9][0-9]?\.[0-9]{{1,2}}\}}'),
    ("alive", one_of("Alive", "Deceased")),
    ("patronus", WORDS),
    ("bogart", WORDS),
)
CHARACTER = r"\{\n  " + ",\\n  ".join(f'"{name}": {value}' for name, value in FIELDS) + r"\n\}"


@sgc.function
def character_json(s, name: str):
    s += f"{name} is a character in Harry Potter. Please fill in the following information about "
    s += "this character.\n"
    s += sgc.gen("json", regex=CHARACTER, max_tokens=256, temperature=0)
    return s["json"]
