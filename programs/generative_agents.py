"""A call of a town of generative agents: one of five questions about an agent and an event.

A row names the kind of call; prompt, token limit and stop follow from it when the row runs.
"""

import sgc

KINDS = ["poignancy", "triple", "emoji", "place", "object"]
PROMPTS = [
    "On a scale of 1 (brushing teeth) to 9 (a wedding), how much does this event "
    "matter to {agent}? Event: {event}\nGive one number.\nRating:",
    "Split the sentence into subject, verb and object.\n"
    "Sentence: Tom is reading a book\nTriple: (Tom, is reading, a book)\n"
    "Sentence: {agent} is {event}\nTriple: (",
    "Describe each action by one emoji.\nAction: sleeping\nEmoji: 😴\n"
    "Action: eating pizza\nEmoji: 🍕\nAction: {event}\nEmoji:",
    "{agent} is {event}. Choose the best place from this list: {options}.\nPlace:",
    "{agent} is {event}. Choose the object that is used: {options}.\nObject:",
]
MAX_TOKENS = [3, 20, 6, 8, 6]
STOPS = ["\n", ")", "\n", "\n", "\n"]


@sgc.function
def generative_agents(s, kind: str, agent: str, event: str, options: list[str] = ()):
    number = KINDS.index(kind)
    s += PROMPTS[number].format(agent=agent, event=event, options=", ".join(options))
    s += sgc.gen("reply", max_tokens=MAX_TOKENS[number], stop=STOPS[number], temperature=0)
    return {"kind": kind, "reply": s["reply"].strip()}
