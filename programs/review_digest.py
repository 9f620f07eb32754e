"""Reviews read side by side with `sgc.map`, then one line that sums them up.

Each review is a sub-program of its own; the graph starts all of them at once, however many there
are, and all share the examples at the beginning of their prompts.
"""

import sgc

EXAMPLES = """A review and its main point in a few words.

Review: The battery is gone by noon and the charger gets hot.
Point: weak battery

Review: I put it up in ten minutes and it has not moved since.
Point: easy to set up

"""


@sgc.function
def main_point(s, review: str, product: str):
    s += EXAMPLES + f"Review: {review}\nPoint:"
    s += sgc.gen("point", max_tokens=10, stop=["\n", "."], temperature=0)
    s += f"\nIs the buyer of the {product} pleased?"
    s += sgc.select("pleased", [" yes", " no"])
    return {"point": s["point"].strip(), "pleased": s["pleased"] == " yes"}


@sgc.function
def review_digest(s, product: str, reviews: list[str]):
    points = sgc.map(main_point, reviews, product)
    s += f"What buyers say about the {product}:\n"
    for found in points:
        s += f"- {found['point']}\n"
    s += "In one sentence, buyers say that" + sgc.gen("digest", max_tokens=32, stop=["\n", "."])
    return {"digest": s["digest"].strip(), "points": points}
