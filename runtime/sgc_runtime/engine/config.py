"""Settings of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

SCORE_TOKENS = 256


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How much the engine may hold and do at once.

    No setting changes a result, only speed and memory.

    Attributes:
        kv_tokens: slots of the KV pool.
        max_running: sequences that are computed at once.
        prefill_tokens: prompt tokens that one step computes at most (longer prompts are cut).
        mixed_tokens: the same for a step in which others decode; None: as many.
        score_tokens: tokens whose logits one step computes for scorings at most; each takes the
            memory of a vocabulary in float32.
        max_prefill_streak: prefill steps in a row before one carries the decoding rows along; 0:
            every step does, so that a running gen gets a token in each.
        reserve: share of the tokens that running gens may still make for which memory is kept
            free at admission; 1 means that nothing is ever retracted.
        share_min_tokens: a request waits for a prefix that another one computes in later steps if
            it saves at least so many tokens. It waits for about one step, in which others are
            served instead, so few tokens are enough. What another one computes in the same step it
            shares at once.
        scan_limit: waiting requests that are looked at in one step.
        order: `lpm`, `dfs` (see `order.PrefixOrder`), `fcfs` or `random`.
        priorities: serve program instances that have begun before new ones; not with `fcfs` and
            `random`.
        claims: with `priorities`, leave instances that have begun the memory that they will come
            back for, and this share of what their later calls may generate; 0: neither. A low
            share lets more of them run at once, which pays where a prompt token costs far less
            than a step (`benchmarks/instances.py`).
        claim_steps: steps for which an instance may stay away from the engine between two calls
            before what it claims lapses.
        hints: use what calls say of the calls to come: who reads their tokens again and when, and
            how much they generate at most. Requests begin and decode only where all in flight can
            end (`safety`), tokens are given up by their next use (`lifetimes`).
        step_tokens: prompt tokens that may be computed anew for each step that a row beside one
            other saves, with `hints`: half of what a step costs on a CPU; 0: none, so that the
            fewest tokens are computed.
        ahead_tokens: tokens of prompts to come that a step computes at most beside others.
        cohort: instances that begin one after another and are served as equals.
        turn_tokens: prompt tokens that are computed between two turns of the request that has
            waited longest; the bound on waiting follows from it (see `turns`).
        cache: keep prefixes for later requests.
        cache_tree: find what a kept sequence has in common with a prompt; without it only
            sequences that the prompt begins with as a whole, and none that is being computed.
        match_share: part of the requests, evenly spread, that may find anything.
        jump: ids that a constraint forces are computed together with what stands before them,
            not one a step.
        overlap: begin a step before the tokens of the one before it are known to the host.
        stats_tokens: prompt positions that are remembered for `optimal_hit_rate`.
    """

    kv_tokens: int
    max_running: int = 128
    prefill_tokens: int = 1024
    mixed_tokens: int | None = None
    score_tokens: int = SCORE_TOKENS
    max_prefill_streak: int = 0
    reserve: float = 0.5
    share_min_tokens: int = 4
    scan_limit: int = 512
    order: str = "lpm"
    priorities: bool = True
    claims: float = 0.7
    claim_steps: int = 16
    hints: bool = True
    step_tokens: float = 9.0
    ahead_tokens: int = 128
    cohort: int = 16
    turn_tokens: int = 16_384
    cache: bool = True
    cache_tree: bool = True
    match_share: float = 1.0
    jump: bool = True
    overlap: bool = False
    stats_tokens: int = 5_000_000
