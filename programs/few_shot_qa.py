"""Few-shot question answering: four solved questions, then the one that is asked.

All rows share the solved questions, so their keys and values are computed once for a whole batch.
"""

import sgc

EXAMPLES = (
    ("What is the largest planet of the solar system?", "Jupiter"),
    ("Who painted the Mona Lisa?", "Leonardo da Vinci"),
    ("How many legs does a spider have?", "Eight"),
    ("What gas do plants take in from the air?", "Carbon dioxide"),
)


@sgc.function
def few_shot_qa(s, question: str):
    s += "Answer each question with a few words.\n\n"
    for example, answer in EXAMPLES:
        s += f"Question: {example}\nAnswer: {answer}\n\n"
    s += f"Question: {question}\nAnswer:"
    s += sgc.gen("answer", max_tokens=16, stop="\n", temperature=0)
    return s["answer"].strip()
