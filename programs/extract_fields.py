"""Information extraction: the facts of a short notice, field by field, as a record.

The program writes the form and the model only its blanks; every blank ends at the line's end, and
the date keeps to a regular expression.
"""

import sgc

EXAMPLE = """Notice: On 12 May 2019 the baker Anna Keller opened a cafe with nine tables in Bern.
Who: Anna Keller
Job: baker
What: opened a cafe
Where: Bern
When: 12 May 2019

"""
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
DATE = f" [1-3]?[0-9] ({MONTHS}) (19|20)[0-9]{{2}}"


def blank(name, max_tokens):
    return sgc.gen(name, max_tokens=max_tokens, stop="\n", temperature=0)


@sgc.function
def extract_fields(s, notice: str):
    s += "Fill in the form with words of the notice.\n\n" + EXAMPLE
    s += f"Notice: {notice}\n"
    s += "Who:" + blank("who", 12)
    s += "\nJob:" + blank("job", 10)
    s += "\nWhat:" + blank("what", 20)
    s += "\nWhere:" + blank("where", 10)
    s += "\nWhen:" + sgc.gen("when", regex=DATE, max_tokens=12, temperature=0) + "\n"
    return {name: s[name].strip() for name in ("who", "job", "what", "where", "when")}
