"""Self-consistency: n chains of reasoning are sampled and the most frequent answer wins.

The number of chains is an argument, so one graph serves every n.
"""

import sgc


@sgc.function
def self_consistency(s, question: str, n: int = 5):
    s += "Question: A box holds 4 red and 3 blue pens. How many pens are in two such boxes?\n"
    s += "Reasoning: One box holds 4 + 3 = 7 pens. Two boxes hold 2 * 7 = 14 pens.\n"
    s += "Answer: 14\n\n"
    s += "Question: Mia had 20 stickers and gave 8 away. Then she got 5. How many has she now?\n"
    s += "Reasoning: After giving 8 away she had 20 - 8 = 12. With 5 more she has 12 + 5 = 17.\n"
    s += "Answer: 17\n\n"
    s += f"Question: {question}\nReasoning:"
    chains = s.fork(n)
    for chain in chains:
        chain += sgc.gen("reasoning", max_tokens=64, stop="\n", temperature=0.6, top_p=0.95)
        chain += "\nAnswer:" + sgc.gen("answer", max_tokens=8, stop="\n", temperature=0)
    answers = [chain["answer"].strip() for chain in chains]
    s += f" {n} chains were tried.\nAnswer: " + sgc.vote(answers)
    return {"answer": sgc.vote(answers), "answers": answers}
