"""The same character as a pydantic model; a sentence then uses fields of the parsed object."""

from typing import Literal

import pydantic

import sgc


class Wand(pydantic.BaseModel):
    wood: str = pydantic.Field(max_length=16)
    core: str = pydantic.Field(max_length=16)
    inches: int = pydantic.Field(ge=7, le=18)


class Character(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=24)
    house: Literal["Gryffindor", "Slytherin", "Ravenclaw", "Hufflepuff"]
    blood_status: Literal["Pure-blood", "Half-blood", "Muggle-born"]
    wand: Wand
    alive: bool
    patronus: str = pydantic.Field(max_length=16)


@sgc.function
def character_schema(s, name: str):
    s += f"{name} is a character in Harry Potter. Please fill in the following information about "
    s += "this character.\n"
    s += sgc.gen("character", json_schema=Character, max_tokens=256, temperature=0)
    hero = s["character"]
    s += f"\nIn one sentence, the wand of {hero['wand']['wood']} that {hero['name']} carries"
    s += sgc.gen("sentence", stop=["\n", "."], max_tokens=24, temperature=0)
    return {"house": hero["house"], "wand": hero["wand"], "sentence": s["sentence"].strip()}
