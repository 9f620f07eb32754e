"""The best of several slogans with `sgc.best_of`: each is graded by a program of its own.

A slogan is graded as soon as it is there, while others are still being written; all graders share
the examples at the beginning of their prompts, and so do all writers.
"""

import sgc

EXAMPLES = """Product: a lamp that wakes you slowly
Slogan: Wake up with your own sunrise.

Product: socks that never lose each other
Slogan: Made for each other, for good.

"""
GRADES = ["1", "2", "3", "4", "5"]


@sgc.function
def write(s, product: str):
    s += EXAMPLES + f"Product: {product}\nSlogan:"
    s += sgc.gen("slogan", max_tokens=16, stop="\n", temperature=0.9)
    return s["slogan"].strip()


@sgc.function
def grade(s, slogan: str):
    s += "How good is the slogan, from 1 (dull) to 5 (a delight)?\n\n"
    s += "Slogan: Our product is very good and useful.\nGrade: 1\n\n"
    s += "Slogan: Wake up with your own sunrise.\nGrade: 5\n\n"
    s += f"Slogan: {slogan}\nGrade: " + sgc.select("grade", GRADES)
    weights = s.meta("grade")["scores"]
    return weights[4] + weights[3] - weights[1] - weights[0]


@sgc.function
def best_slogan(s, product: str, n: int = 4):
    best = sgc.best_of(n, write, grade, product)
    s += f"{product}: {best}"
    return best
