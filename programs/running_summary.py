"""A summary carried through a story with `sgc.reduce`: what was so far, and the next part.

The parts are read in order, since each run needs the summary that the one before has written; the
first part is the first summary.
"""

import sgc

EXAMPLES = """A summary is brought up to date, in one or two short sentences.

Summary: A fox finds a well and falls in.
Next: A goat comes by. The fox praises the water until the goat jumps in too.
New summary: A fox that fell into a well talks a goat into joining it.

Summary: Two brothers set out to find the water of life.
Next: They mock a dwarf on the road. He leads them into a valley without a way out.
New summary: Two brothers seek the water of life, but mock a dwarf and are trapped.

"""


@sgc.function
def bring_up_to_date(s, so_far: str, part: str):
    s += EXAMPLES + f"Summary: {so_far}\nNext: {part}\nNew summary:"
    s += sgc.gen("summary", max_tokens=40, stop="\n", temperature=0)
    return s["summary"].strip()


@sgc.function
def running_summary(s, title: str, parts: list[str]):
    summary = sgc.reduce(bring_up_to_date, parts)
    s += f"Story: {title}\nSummary: {summary}\nThe story teaches that"
    s += sgc.gen("moral", max_tokens=20, stop=["\n", "."], temperature=0)
    return {"summary": summary, "moral": s["moral"].strip()}
