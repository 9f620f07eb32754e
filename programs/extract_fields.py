"""Information extraction: the facts of a short notice, field by field, as a record.

The program writes the form and the model only its blanks; every blank ends at the line's end.
"""

import sgc

EXAMPLE = """Notice: On 12 May 2019 the baker Anna Keller opened a cafe with nine tables in Bern.
Who: Anna Keller
Job: baker
What: opened a cafe
Where: Bern
When: 12 May 2019

"""


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
    s += "\nWhen:" + blank("when", 12) + "\n"
    return {name: s[name].strip() for name in ("who", "job", "what", "where", "when")}
