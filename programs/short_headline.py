"""A headline that keeps to a length, with `sgc.retry_until`: written anew until it fits.

Each try has seeds of its own and begins only when the one before was too long; all of them share
their whole prompt. A row for which no try fits is reported as failed.
"""

import sgc

EXAMPLES = """News: The city council voted on Monday to close the old bridge to cars from May on.
Headline: Old bridge closes to cars

News: A baker from Lyon has baked a bread of four metres for the school's summer fair.
Headline: Baker makes four-metre bread

"""
MAX_WORDS = 6
TRIES = 8


@sgc.function
def headline(s, news: str):
    s += EXAMPLES + f"News: {news}\nHeadline:"
    s += sgc.gen("headline", max_tokens=16, stop=["\n", "."], temperature=0.9)
    return s["headline"].strip()


def fits(text):
    return 2 <= len(text.split()) <= MAX_WORDS


@sgc.function
def short_headline(s, news: str):
    found = sgc.retry_until(headline, fits, TRIES, news)
    s += f"{found}\n{news}\nIs this news about a person?" + sgc.select("person", [" yes", " no"])
    return {"headline": found, "person": s["person"] == " yes"}
