"""Prompts that share as those of real programs do: exams, agents, retrieval, trees of thought."""

from __future__ import annotations

import random

VOCAB = 50


def text(rng: random.Random, num_tokens: int) -> list[int]:
    return [rng.randrange(2, VOCAB) for _ in range(num_tokens)]


def exam(rng: random.Random, subjects: int = 10, rows: int = 30) -> list[list[int]]:
    """Questions behind the five examples of their subject, subjects mixed."""
    begin = text(rng, 12)
    prompts = []
    for _ in range(subjects):
        shots = [*begin, *text(rng, rng.randrange(350, 900))]
        prompts += [[*shots, *text(rng, rng.randrange(40, 120))] for _ in range(rows)]
    rng.shuffle(prompts)
    return prompts


def agents(rng: random.Random, people: int = 25, calls: int = 300) -> list[list[int]]:
    """Templates of a simulated town: an instruction, who it is about, what just happened."""
    templates = [text(rng, rng.randrange(60, 400)) for _ in range(12)]
    persons = [text(rng, rng.randrange(80, 200)) for _ in range(people)]
    return [
        [*rng.choice(templates), *rng.choice(persons), *text(rng, rng.randrange(20, 150))]
        for _ in range(calls)
    ]


def retrieval(rng: random.Random, documents: int = 30, questions: int = 300) -> list[list[int]]:
    """An instruction, three documents of which some are asked for often, a question."""
    begin = text(rng, 40)
    stock = [text(rng, rng.randrange(120, 320)) for _ in range(documents)]
    weights = [1 / (1 + i) for i in range(documents)]
    prompts = []
    for _ in range(questions):
        found = rng.choices(stock, weights, k=3)
        prompts.append([*begin, *found[0], *found[1], *found[2], *text(rng, rng.randrange(10, 40))])
    return prompts


WORKLOADS = {"exam": exam, "agents": agents, "retrieval": retrieval}
