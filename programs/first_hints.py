"""Hints for a riddle with `sgc.first`: of several ways to ask, those that answer soonest count.

The branches share the riddle; as soon as two have finished, the others are cancelled, on the device
too. Which two that are depends on the machine; what they say does not.
"""

import sgc

WAYS = [
    ("Hint in three words:", 8),
    ("Hint that names where it is found:", 24),
    ("Hint that tells a little story:", 64),
    ("Hint as a rhyme of two lines:", 48),
]
WANTED = 2


@sgc.function
def first_hints(s, riddle: str, answer: str):
    s += "Hints for a riddle, which must not give the answer away.\n\n"
    s += "Riddle: What has a neck but no head?\nAnswer: a bottle\n"
    s += "Hint: It may hold what you drink.\n\n"
    s += f"Riddle: {riddle}\nAnswer: {answer}\n"
    forks = s.fork(len(WAYS))
    for fork, (way, length) in zip(forks, WAYS):
        fork += way + sgc.gen("hint", max_tokens=length, stop="\n\n", temperature=0)
        fork.set("way", way)
    hints = sgc.first(WANTED, forks)
    for found in hints:
        s += f"Hint: {found['hint'].strip()}\n"
    s += "The better hint is number" + sgc.select("better", [" 1", " 2"])
    return {"hints": [found["hint"].strip() for found in hints], "better": int(s["better"])}
