"""What a result file and the screen say of one part of `engine_cpu`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.common.ceilings import Ceilings
from benchmarks.common.goals import floors, shared_goal
from benchmarks.common.lineup import CALIBRATED, LIKE, Lineup, Measured, rate_of
from benchmarks.common.parts import Part
from benchmarks.common.sizes import Sizes

_BEYOND = "by hand"  # a way of use that no goal names; shown all the same


def part_result(
    part: Part, measured: Measured, lineup: Lineup, sizes: Sizes, ceilings: Ceilings
) -> dict[str, Any]:
    """Times, tokens, ratios and goals."""
    recording = measured.recording
    prefill, decode = recording.must_compute()
    methods = lineup.methods()
    return {
        "what": part.what,
        "warm_up": measured.warm_up,
        "took_s": {name: round(seconds, 1) for name, seconds in measured.took_s.items()},
        "work": {
            "calls": len(recording.calls),
            "prompt_tokens": recording.prompt_tokens,
            "new_tokens": recording.new_tokens,
            "scored_choices": recording.num_scored,
            "must_compute": {"prefill": prefill, "decode": decode},
        },
        "ceilings": ceilings.to_dict(),
        "floors": floors(recording, sizes, ceilings),
        "engines": {name: _engine(name, measured, methods) for name in measured.samples},
        "missing": measured.missing,
        "unshared_rates": {
            reading: {name: rates.to_dict() for name, rates in found.items()}
            for reading, found in measured.rates.items()
        },
        "comparisons": [
            comparison
            for peer in measured.replays
            for comparison in _comparisons(part, measured, peer)
        ],
    }


def _engine(name: str, measured: Measured, methods: Mapping[str, str]) -> dict[str, Any]:
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
    computed = measured.replays[name].computed_tokens
    return {"method": methods[name], **found, "computed_tokens": computed}


def _comparisons(part: Part, measured: Measured, peer: str) -> list[dict[str, Any]]:
    found = []
    fixed = next((goal for name, goal in part.goals if peer.startswith(name)), None)
    for i, own in enumerate(measured.counted):
        speed = measured.samples[peer].median / measured.samples[own].median
        entry: dict[str, Any] = {"ours": own, "peer": peer, "speed_ratio": round(speed, 3)}
        if fixed is not None:
            entry["goal"] = fixed
        elif part.shares:
            entry |= _shared(measured, own, peer)
        if i == 0 and not peer.endswith(_BEYOND):
            for reading in (entry, entry.get(LIKE, {})):
                if "goal" in reading:
                    reading["met"] = speed >= reading["goal"]
        found.append(entry)
    return found


def _shared(measured: Measured, own: str, peer: str) -> dict[str, Any]:
    """The goal by the rates of the calibration workloads, and by those of the unshared twin."""
    goals = {
        reading: shared_goal(
            measured.recording, measured.computed(peer), rate_of(rates, own), rate_of(rates, peer)
        )
        for reading, rates in measured.rates.items()
    }
    like = goals[LIKE]
    like.pop("token_ratio")  # the same
    return {**goals[CALIBRATED], LIKE: like}


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
            f"  {engine:38} {found['median_s']:9.3f} s  ({found['repetitions']} x, "
            f"spread {100 * found['spread']:.0f} %)  "
            f"{found['computed_tokens']} tokens computed"
        )
    for engine, reason in result["missing"].items():
        out.append(f"  {engine:38} left out: {reason}")
    out += [f"  {line}" for entry in result["comparisons"] for line in _comparison_lines(entry)]
    floor = result["floors"]
    out.append(
        f"  floor: {floor['total_s_bfloat16_weights']} s with bfloat16 weights, "
        f"{floor['total_s_file_weights']} s with the file's"
    )
    return out


def _comparison_lines(entry: Mapping[str, Any]) -> list[str]:
    head = f"{entry['ours']} against {entry['peer']}: {entry['speed_ratio']:.2f}x"
    if LIKE not in entry:
        goal = f", goal {entry['goal']:.2f}{_judged(entry)}" if "goal" in entry else ""
        return [head + goal]
    return [
        head,
        *(
            f"  goal {found['goal']:.2f} = 0.9 x {entry['token_ratio']:.2f} tokens x "
            f"{found['gain_per_token']:.2f} a token by {name}{_judged(found)}"
            for name, found in ((CALIBRATED, entry), ("its unshared twin", entry[LIKE]))
        ),
    ]


def _judged(reading: Mapping[str, Any]) -> str:
    return "" if "met" not in reading else ": met" if reading["met"] else ": MISSED"
