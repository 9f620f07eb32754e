"""Essay judge, branch-solve-merge: one opinion per dimension, all at once, then one grade.

The branches share the essay as their prefix. Their number is that of the dimensions of the row.
"""

import sgc


@sgc.function
def essay_judge(s, essay: str, dimensions: list[str] = ("clarity", "evidence", "style")):
    s += sgc.system("You grade short essays. You are fair and brief.")
    s += sgc.user("Essay:\n" + essay)
    forks = s.fork(len(dimensions))
    for f, dimension in zip(forks, dimensions):
        f += sgc.user(f"Judge the {dimension} of this essay in one sentence.")
        f += sgc.assistant(sgc.gen("judgment", max_tokens=40, stop="\n", temperature=0))
    opinions = "\n".join(f"{d}: {f['judgment']}" for f, d in zip(forks, dimensions))
    s += sgc.user(f"Opinions of the jury:\n{opinions}\n\nGrade the essay from A (best) to D.")
    s += sgc.assistant("Grade: " + sgc.select("grade", ["A", "B", "C", "D"]))
    return {"grade": s["grade"], "judgments": [f["judgment"] for f in forks]}
