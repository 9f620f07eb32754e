"""ReAct replay: at each of three recorded steps the model proposes its own, the record goes on.

Each proposal runs in a branch that is thrown away afterwards, so the trace stays the recorded one
and all proposals of a row can be compared with it.
"""

import sgc

NUM_STEPS = 3

INTRO = """Answer a question in steps of Thought, Action and Observation. The actions are \
search[entity], lookup[word] and finish[answer].

Question: In which country was the author of The Trial born?
Thought 1: I have to find out who wrote The Trial.
Action 1: search[The Trial]
Observation 1: The Trial is a novel by Franz Kafka, published in 1925.
Thought 2: Franz Kafka wrote it. I have to find where he was born.
Action 2: search[Franz Kafka]
Observation 2: Franz Kafka was born in Prague, then in Austria-Hungary.
Thought 3: He was born in Austria-Hungary, so that is the answer.
Action 3: finish[Austria-Hungary]
Observation 3: Done.
Answer: Austria-Hungary

"""


@sgc.function
def react_replay(s, question: str, steps: list[dict[str, str]]):
    s += INTRO + f"Question: {question}\n"
    proposals = []
    for i in range(NUM_STEPS):
        step = steps[i]
        proposal = s.fork(1)[0]
        proposal += f"Thought {i + 1}:"
        proposal += sgc.gen("step", max_tokens=48, stop="Observation", temperature=0)
        proposals.append(proposal["step"].strip())
        s += f"Thought {i + 1}: {step['thought']}\n"
        s += f"Action {i + 1}: {step['action']}\n"
        s += f"Observation {i + 1}: {step['observation']}\n"
    s += "Answer:" + sgc.gen("answer", max_tokens=12, stop="\n", temperature=0)
    return {"proposals": proposals, "answer": s["answer"].strip()}
