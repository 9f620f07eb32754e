"""Prompts for the calls of a town of generative agents, from the arguments of a call trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.common.items import AgentCall

_FORMS: dict[str, tuple[str, int]] = {
    "poignancy_event": (
        "Here is a brief description of {persona_name}.\n{persona_iss}\n\nOn the scale of 1 to 10, "
        "where 1 is mundane (brushing teeth) and 10 is moving (a wedding), rate how much the "
        "following event means to {persona_name}.\n\nEvent: {event}\nRating:",
        3,
    ),
    "generate_event_triple": (
        "Turn the sentence into subject, predicate and object.\n\nSentence: Sam is eating "
        "breakfast.\nTriple: (Sam, eat, breakfast)\n---\nSentence: Joon is brewing coffee.\n"
        "Triple: (Joon, brew, coffee)\n---\nSentence: {persona_name} is {action}.\n"
        "Triple: ({persona_name},",
        20,
    ),
    "generate_pronunciatio": (
        "Convert an action description to an emoji (at most two).\n\n"
        "Action description: {action}\nEmoji:",
        6,
    ),
    "action_location_sector": (
        "Choose an area from the options for what is done next.\n\n{persona_name} lives in "
        "{living_sector} that has {living_sector_areas}.\n{persona_name} is in {current_sector} "
        "that has {current_sector_areas}. {daily_plan}\nOptions: {sector_options}.\nFor "
        "{next_action}, {persona_name} should go to:",
        10,
    ),
    "action_location_object": (
        "Choose an area from the options for what is done next.\n\n{persona_name} is going to "
        "{target_sector} that has the following areas: {target_sector_areas}.\nStay in the "
        "current area if the activity can be done there.\nFor {next_action}, {persona_name} "
        "should go to the following area in {target_sector}:",
        5,
    ),
}


class _Missing(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def agent_call(kind: str, arguments: Mapping[str, Any]) -> AgentCall:
    """The call's prompt and limit; an argument that the trace lacks reads `?`."""
    form, limit = _FORMS[kind]
    return AgentCall(form.format_map(_Missing(arguments)), limit)
