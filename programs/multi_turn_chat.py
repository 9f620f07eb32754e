"""Multi-turn chat: three questions of one person, each answered with all earlier turns in view.

The stream keeps its keys and values between the turns, so a turn costs only its own new tokens.
At the end the talk gets a title.
"""

import sgc

NUM_TURNS = 3


@sgc.function
def multi_turn_chat(s, topic: str, questions: list[str]):
    s += sgc.system(f"You are a friendly expert on {topic}. Answer in one or two sentences.")
    for turn in range(NUM_TURNS):
        s += sgc.user(questions[turn])
        s += sgc.assistant(sgc.gen(f"answer_{turn + 1}", max_tokens=48, temperature=0))
    s += sgc.user("Give our talk a title of at most five words.")
    s += sgc.assistant("Title: " + sgc.gen("title", max_tokens=12, stop="\n", temperature=0))
    answers = [s[f"answer_{turn + 1}"].strip() for turn in range(NUM_TURNS)]
    return {"title": s["title"].strip(' "'), "answers": answers}
