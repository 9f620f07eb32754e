"""Skeleton of thought: write three short tips in a row, then expand all of them at once.

Each expansion is a program of its own with a solved example. It starts as soon as its tip is
there, while the later tips are still being written.
"""

import sgc

NUM_TIPS = 3


@sgc.function
def expand_tip(s, topic: str, tip: str):
    s += "Explain a tip in two sentences.\n\n"
    s += "Topic: sleeping well\nTip: Go to bed at the same hour\n"
    s += "Explanation: A fixed hour trains your body to expect sleep. "
    s += "After two weeks you fall asleep faster.\n\n"
    s += f"Topic: {topic}\nTip: {tip.strip()}\nExplanation:"
    s += sgc.gen("detail", max_tokens=48, stop="\n", temperature=0)
    return s["detail"].strip()


@sgc.function
def skeleton_tips(s, topic: str):
    s += "Here are short tips of three to eight words each.\n\n"
    s += "Topic: sleeping well\n1. Go to bed at the same hour\n"
    s += "2. Keep the bedroom dark and cool\n3. Drink no coffee after lunch\n\n"
    s += f"Topic: {topic}\n"
    expansions = []
    for i in range(1, NUM_TIPS + 1):
        s += f"{i}." + sgc.gen(f"tip_{i}", max_tokens=16, stop=[".", "\n"], temperature=0) + "\n"
        expansions.append(expand_tip(topic, s[f"tip_{i}"]))
    for i, expansion in enumerate(expansions):
        s += f"\nTip {i + 1}: " + expansion["detail"].strip()
    return {
        "tips": [s[f"tip_{i}"].strip() for i in range(1, NUM_TIPS + 1)],
        "details": [expansion["detail"].strip() for expansion in expansions],
    }
