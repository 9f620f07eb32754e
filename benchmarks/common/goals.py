"""Rates of unshared work, floors, and what speed ratio sharing should give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from benchmarks.common.ceilings import Ceilings
from benchmarks.common.recording import Recording
from benchmarks.common.sizes import Sizes

SHARE = 0.9  # of the ratio of tokens times the gain per token


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second where nothing is shared; no decode rate where nothing is decoded."""

    prefill: float
    decode: float = math.inf

    def seconds(self, prefill: int, decode: int) -> float:
        return prefill / self.prefill + decode / self.decode

    def to_dict(self) -> dict[str, float]:
        found = {"prefill_tokens_s": round(self.prefill, 1)}
        if math.isfinite(self.decode):
            found["decode_tokens_s"] = round(self.decode, 1)
        return found


def rates(prompts: Recording, prompt_s: float, chats: Recording, chat_s: float) -> Rates:
    """From the times of the two calibration workloads: tokens of the prompts, without padding."""
    prefill = prompts.prompt_tokens / prompt_s
    decoded = max(1, chats.new_tokens - len(chats.calls))
    # A loaded machine may spend less on the chats than their prompts alone should cost.
    decode_s = max(chat_s - chats.prompt_tokens / prefill, 0.1 * chat_s)
    return Rates(prefill, decoded / decode_s)


def rates_of_like_work(
    computed: int, first_s: float, decoded: int = 0, all_s: float | None = None
) -> Rates:
    """From the times of a part's unshared twin: up to the first tokens, and all of it.

    Args:
        computed: tokens that the engine put through its model up to the first tokens, padding
            included, as the token ratio counts them too.
        decoded: tokens behind the first ones.
    """
    prefill = computed / first_s
    if all_s is None or not decoded:
        return Rates(prefill)
    return Rates(prefill, decoded / max(all_s - first_s, 0.1 * all_s))


def shared_goal(
    recording: Recording, peer_tokens: int, ours: Rates, peer: Rates
) -> dict[str, float]:
    """The goal where sharing pays, and what it is made of.

    token_ratio = tokens that the peer puts through its model / tokens that must be;
    gain_per_token = its seconds per token of its mix of prefill and decode / ours of ours, both
    at the rates of unshared work; goal = 0.9 x token_ratio x gain_per_token.
    """
    prefill, decode = recording.must_compute()
    peer_decode = 0 if recording.num_scored else recording.new_tokens - len(recording.calls)
    peer_s = peer.seconds(max(0, peer_tokens - peer_decode), peer_decode)
    ratio = peer_tokens / (prefill + decode)
    expected = peer_s / ours.seconds(prefill, decode)
    return {
        "token_ratio": round(ratio, 3),
        "gain_per_token": round(expected / ratio, 3),
        "goal": round(SHARE * expected, 3),
    }


def floors(recording: Recording, sizes: Sizes, ceilings: Ceilings) -> dict[str, Any]:
    """Seconds below which this work cannot be done, with weights as bfloat16 and as in the file.

    Prefill: operations at the matrix rate. Decode: step by step the larger of operations and
    bytes (all weights once a step, each KV position that must exist once). Operations of the
    attention are left out, so the true floor is a little higher.
    """
    prefill, _ = recording.must_compute()
    rows = recording.num_scored or len(recording.calls)
    operations = 2.0 * (sizes.layer_weights * prefill + sizes.head_weights * rows)
    found: dict[str, Any] = {"prefill_s": round(ceilings.floor_s(0, operations), 4)}
    for name, weight_bytes in (("bfloat16", sizes.bfloat16_bytes), ("file", sizes.file_bytes)):
        decode = sum(
            ceilings.floor_s(
                weight_bytes + positions * sizes.kv_bytes,
                2.0 * (sizes.layer_weights + sizes.head_weights) * going,
            )
            for going, positions in decode_steps(recording)
        )
        found[f"decode_s_{name}_weights"] = round(decode, 4)
        found[f"total_s_{name}_weights"] = round(decode + found["prefill_s"], 4)
    return found


def decode_steps(recording: Recording) -> list[tuple[int, int]]:
    """Sequences, and KV positions that they read, of each decode step, as few as can be: calls
    of one wave run together, and a prefix that all calls of a parent share is read once."""
    steps: list[tuple[int, int]] = []
    last = max((call.wave for call in recording.calls), default=-1)
    for wave in range(last + 1):
        calls = [call for call in recording.calls if call.wave == wave]
        prompts = len({token for call in calls for token in _positions(call.prompt)})
        for step in range(1, max(call.num_new for call in calls)):
            going = [call for call in calls if call.num_new > step]
            if going:
                steps.append((len(going), prompts + step * len(going)))
    return steps


def _positions(prompt: tuple[int, ...]) -> list[int]:
    """A number for each prefix of a prompt: equal prefixes have equal numbers."""
    numbers, state = [], 0
    for token in prompt:
        state = hash((state, token))
        numbers.append(state)
    return numbers
