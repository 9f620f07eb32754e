"""Retrieval-augmented answer: numbered passages, a short answer, and the passage it came from.

The passages are a list of any length, as a search engine would give them; the choices of the
source follow from that length when the row runs.
"""

import sgc


@sgc.function
def rag_answer(s, question: str, passages: list[str]):
    numbered = "\n".join(f"[{i + 1}] {passage}" for i, passage in enumerate(passages))
    numbers = [str(i + 1) for i in range(len(passages))]
    s += sgc.system("Answer from the given passages only, with one short sentence.")
    s += sgc.user(f"Passages:\n{numbered}\n\nQuestion: {question}")
    s += sgc.assistant(sgc.gen("answer", max_tokens=32, stop="\n", temperature=0))
    s += sgc.user("Which passage says so? Reply with its number.")
    s += sgc.assistant("Passage " + sgc.select("source", numbers))
    source = int(s["source"])
    return {"answer": s["answer"].strip(), "source": source, "passage": passages[source - 1]}
