"""Multi-document question answering: documents are read side by side, then put together.

Each document is a branch of its own, whose note is written without a look at the others. The join
appends the branches in order, and the answer is written with all documents and notes in view.
"""

import sgc


@sgc.function
def multi_doc_qa(s, question: str, documents: list[str]):
    s += f"Here are documents, each with a note on the question: {question}\n"
    forks = s.fork_each(documents)
    for f in forks:
        f += f"\nDocument: {f.item}\nNote on the question:"
        f += sgc.gen("note", max_tokens=24, stop="\n", temperature=0)
        f += "\n"
    forks.join("append")
    s += f"\nQuestion: {question}\nAnswer in one short sentence:"
    s += sgc.gen("answer", max_tokens=24, stop="\n", temperature=0)
    return {"answer": s["answer"].strip(), "notes": [f["note"].strip() for f in forks]}
