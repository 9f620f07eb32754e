"""Tree of thought on grade-school maths: two plans, each carried out twice, each result checked.

The tree has 2 plans, 4 solutions and 4 checked answers; the answer that most leaves agree on wins.
"""

import sgc

WIDTH = 2
HEAT = 0.7  # the branches of a fork must differ


def branch(s, request, name, max_tokens):
    """Ask `request` and give `WIDTH` branches with one reply each."""
    s += sgc.user(request)
    forks = s.fork(WIDTH)
    for f in forks:
        f += sgc.assistant(sgc.gen(name, max_tokens=max_tokens, temperature=HEAT))
    return forks


def check(s):
    """Let a branch look at its own solution again and state the number."""
    s += sgc.user("Check each step of your solution. Then give the final number alone.")
    s += sgc.assistant(
        sgc.gen("check", max_tokens=32, stop="\n", temperature=0)
        + "\nThe final number is"
        + sgc.gen("answer", max_tokens=6, stop=[".", ",", "\n"], temperature=0)
    )
    return s["answer"].strip(" *$:")


@sgc.function
def tree_of_thought(s, question: str):
    s += sgc.system("You solve maths problems step by step.")
    ask = f"{question}\nMake a short plan of two steps. Do not calculate yet."
    answers = []
    for plan in branch(s, ask, "plan", 48):
        for leaf in branch(plan, "Carry out the plan and calculate.", "solution", 64):
            answers.append(check(leaf))
    return {"answer": sgc.vote(answers), "answers": answers}
