"""What a result file and the screen say of one part of `engine_cpu`."""

from __future__ import annotations

from typing import Any

from benchmarks.common.ceilings import Ceilings
from benchmarks.common.goals import floors, shared_goal
from benchmarks.common.lineup import Lineup, Measured
from benchmarks.common.parts import Part
from benchmarks.common.sizes import Sizes

_BEYOND = "by hand"  # a way of use that no goal names; shown all the same


def part_result(
    part: Part, measured: Measured, lineup: Lineup, sizes: Sizes, ceilings: Ceilings
) -> dict[str, Any]:
    """Times, tokens, ratios and goals."""
    recording = measured.recording
    prefill, decode = recording.must_compute()
    return {
        "what": part.what,
        "work": {
            "calls": len(recording.calls),
            "prompt_tokens": recording.prompt_tokens,
            "new_tokens": recording.new_tokens,
            "scored_choices": recording.num_scored,
            "must_compute": {"prefill": prefill, "decode": decode},
        },
        "ceilings": ceilings.to_dict(),
        "floors": floors(recording, sizes, ceilings),
        "engines": {name: _engine(name, measured) for name in measured.samples},
        "missing": measured.missing,
        "comparisons": [
            comparison
            for peer in measured.replays
            for comparison in _comparisons(part, measured, lineup, peer)
        ],
    }


def _engine(name: str, measured: Measured) -> dict[str, Any]:
    samples = measured.samples[name]
    new = measured.recording.new_tokens
    found = {**samples.to_dict(), "new_tokens_s": round(new / samples.median, 2)}
    if name in measured.counted:
        counted = measured.counted[name]
        return {
            **found,
            "prompt_tokens": counted.prompt_tokens,
            "computed_tokens": counted.computed_tokens,
            "where_time_goes_s": counted.seconds,
        }
    return {**found, "computed_tokens": measured.replays[name].computed_tokens}


def _comparisons(part: Part, measured: Measured, lineup: Lineup, peer: str) -> list[dict[str, Any]]:
    found = []
    for i, own in enumerate(measured.counted):
        speed = measured.samples[peer].median / measured.samples[own].median
        entry: dict[str, Any] = {"ours": own, "peer": peer, "speed_ratio": round(speed, 3)}
        computed = measured.replays[peer].computed_tokens
        fixed = next((goal for name, goal in part.goals if peer.startswith(name)), None)
        if part.shares and fixed is None and computed is not None:
            rates = lineup.rates_of(own), lineup.rates_of(peer)
            entry |= shared_goal(measured.recording, computed, *rates)
        elif fixed is not None:
            entry["goal"] = fixed
        if "goal" in entry and i == 0 and not peer.endswith(_BEYOND):
            entry["met"] = speed >= entry["goal"]
        found.append(entry)
    return found


def lines(name: str, result: dict[str, Any]) -> list[str]:
    """The same for the screen."""
    work = result["work"]
    must = work["must_compute"]
    out = [
        f"({name}) {result['what']}: {work['calls']} calls, {must['prefill']} prompt and "
        f"{must['decode']} decode tokens must be computed"
    ]
    for engine, found in result["engines"].items():
        out.append(
            f"  {engine:38} {found['median_s']:9.3f} s  (spread {100 * found['spread']:.0f} %)  "
            f"{found['computed_tokens']} tokens computed"
        )
    for engine, reason in result["missing"].items():
        out.append(f"  {engine:38} left out: {reason}")
    for entry in result["comparisons"]:
        goal = f", goal {entry['goal']:.2f}" if "goal" in entry else ""
        made_of = (
            f" = 0.9 x {entry['token_ratio']:.2f} tokens x {entry['gain_per_token']:.2f} a token"
            if "token_ratio" in entry
            else ""
        )
        met = "" if "met" not in entry else ": met" if entry["met"] else ": MISSED"
        out.append(
            f"  {entry['ours']} against {entry['peer']}: {entry['speed_ratio']:.2f}x"
            f"{goal}{made_of}{met}"
        )
    floor = result["floors"]
    out.append(
        f"  floor: {floor['total_s_bfloat16_weights']} s with bfloat16 weights, "
        f"{floor['total_s_file_weights']} s with the file's"
    )
    return out
