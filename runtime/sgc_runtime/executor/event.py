"""What a run tells while it goes on: pieces of text as they come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of a variable's text: the pieces of one node concatenate to it.

    Attributes:
        node: dynamic path of the gen or select.
        stream: dynamic path of its stream.
        name: the variable.
        text: the piece; may be empty in the last event.
        done: whether this is the node's last event.
    """

    node: str
    stream: str
    name: str
    text: str
    done: bool
