"""Generative agents: the five kinds of calls that a town of simulated people makes most.

Each row is one call of a recorded day: its kind and its arguments. The prompts ask what those of
the paper "Generative Agents" (Park et al., arXiv 2304.03442) ask, in words of our own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, make_rows, only_entry, read_jsonl, sample_rows
from sgc.eval.suite import LoadOptions, Row, Suite

NEEDED = {
    "poignancy_event": ("persona_name", "persona_iss", "event"),
    "generate_event_triple": ("persona_name", "action"),
    "generate_pronunciatio": ("action",),
    "action_location_sector": (
        "persona_name",
        "living_sector",
        "living_sector_areas",
        "current_sector",
        "current_sector_areas",
        "daily_plan",
        "sector_options",
        "next_action",
    ),
    "action_location_object": (
        "persona_name",
        "target_sector",
        "target_sector_areas",
        "next_action",
    ),
}


def rate_event(s: Any, call: Any) -> None:
    """How much an event matters to a person, 1 to 10."""
    s += f"Here is a short description of {call['persona_name']}.\n{call['persona_iss']}\n"
    s += "On a scale of 1 to 10, where 1 is an everyday thing (brushing teeth, making the bed) "
    s += "and 10 one that moves deeply (a wedding, a death in the family), rate how much the "
    s += f"following event is likely to mean to {call['persona_name']}.\n\n"
    s += f"Event: {call['event']}\nRating:" + sgc.gen("reply", max_tokens=2)


def split_event(s: Any, call: Any) -> None:
    """Subject, predicate and object of what happens."""
    s += "Task: turn the sentence into (subject, predicate, object).\n\n"
    s += "Sentence: Nora is watering the roses.\nTriple: (Nora, water, roses)\n---\n"
    s += "Sentence: Emil is repairing a bicycle.\nTriple: (Emil, repair, bicycle)\n---\n"
    s += "Sentence: the oven is being heated.\nTriple: (oven, is, heated)\n---\n"
    s += f"Sentence: {call['persona_name']} is {call['action']}.\n"
    s += f"Triple: ({call['persona_name']}," + sgc.gen("reply", max_tokens=20, stop=")")


def draw_action(s: Any, call: Any) -> None:
    """An action as emoji."""
    s += "Describe the action by emoji, two at most.\n\n"
    s += f"Action: {call['action']}\nEmoji:" + sgc.gen("reply", max_tokens=6)


def choose_sector(s: Any, call: Any) -> None:
    """In which place of the town the next action is done."""
    s += "Task: choose a place from the options for what somebody does next.\n\n"
    s += "Nora Lind lives in {Nora Lind's house} that has kitchen, bedroom.\n"
    s += "Nora Lind is in {Mill School} that has classroom, yard.\n"
    s += "Options: {Nora Lind's house, Mill School, The Red Inn}.\n"
    s += "Stay in the present place if the action can be done there.\n"
    s += "For eating dinner, Nora Lind should go to: {The Red Inn}\n---\n"
    s += f"{call['persona_name']} lives in {{{call['living_sector']}}} that has "
    s += f"{call['living_sector_areas']}.\n"
    s += f"{call['persona_name']} is in {{{call['current_sector']}}} that has "
    s += f"{call['current_sector_areas']}. {call['daily_plan']}\n"
    s += f"Options: {{{call['sector_options']}}}.\n"
    s += "Stay in the present place if the action can be done there.\n"
    s += f"For {call['next_action']}, {call['persona_name']} should go to: {{"
    s += sgc.gen("reply", max_tokens=10, stop="}")


def choose_area(s: Any, call: Any) -> None:
    """In which room of a place the next action is done."""
    s += "Task: choose an area for what somebody does next.\n\n"
    s += "Nora Lind is in {Mill School} that has {classroom, yard}.\n"
    s += "For teaching arithmetic, Nora Lind should go to: {classroom}\n---\n"
    s += f"{call['persona_name']} is in {{{call['target_sector']}}} that has "
    s += f"{{{call['target_sector_areas']}}}.\n"
    s += f"For {call['next_action']}, {call['persona_name']} should go to: {{"
    s += sgc.gen("reply", max_tokens=5, stop="}")


@sgc.function
def generative_agents(s: Any, kind: str, call: dict[str, str]) -> Any:
    """The model's answer to one call."""
    if kind == "poignancy_event":
        rate_event(s, call)
    elif kind == "generate_event_triple":
        split_event(s, call)
    elif kind == "generate_pronunciatio":
        draw_action(s, call)
    elif kind == "action_location_sector":
        choose_sector(s, call)
    else:
        choose_area(s, call)
    return s["reply"].strip()


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each line `{kind: arguments}` of the call trace."""
    records = read_jsonl(folder / "agent_calls.jsonl")
    return sample_rows(make_rows(records, _row), options.limit, options.seed)


def _row(index: int, record: Record) -> Row:
    kind, call = only_entry(record.data)
    if kind not in NEEDED:
        raise ValueError(f"{kind} is no kind of call; there are {', '.join(NEEDED)}")
    for name in NEEDED[kind]:
        if not isinstance(call[name], str):
            raise ValueError(f"{name} is no text")
    return Row(str(index), {"kind": kind, "call": call}, group=kind)


SUITE = Suite(
    name="generative-agents",
    title="Generative agents",
    program="generative_agents",
    folder="generative_agents",
    load=load,
    score=None,
    metric="",
    files=("generative_agents/agent_calls.jsonl",),
    defaults={"temperature": 0.0, "parallel": 64},
    notes="No accuracy: the trace has no right answers. The published script runs the calls one "
    "after the other and counts five as one program; here each call is a row, and rows run side by "
    "side.",
)
