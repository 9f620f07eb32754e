"""Puts model, tokenizer and KV pool together into a running engine."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch

from sgc_ir.errors import SgcError
from sgc_kernels.cache_dir import cache_dir
from sgc_runtime.cache.kv_pool import bytes_per_token
from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.constraints.compiler import ConstraintCompiler, Tools
from sgc_runtime.constraints.garbage import freeze_what_is_loaded
from sgc_runtime.constraints.of_tokenizer import constraint_tools
from sgc_runtime.engine.budgets import Budgets, Sizes, cpu_budgets, describe, gpu_budgets
from sgc_runtime.engine.config import SCORE_TOKENS, EngineConfig
from sgc_runtime.engine.core import EngineCore, broken
from sgc_runtime.engine.engine import Engine
from sgc_runtime.engine.host_runner import Model
from sgc_runtime.engine.memory import pool_tokens
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.engine.profile import NO_PROFILE, Profile
from sgc_runtime.engine.regions import TokenChars
from sgc_runtime.engine.runners import kv_format, make_runner
from sgc_runtime.engine.seams import Seams
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.engine.trial import CudaMachine
from sgc_runtime.engine.vocabulary import Vocabulary
from sgc_runtime.model.config import ModelConfig
from sgc_runtime.sampling.healing import MAX_HEALED_IDS, Healing, TokenPrefixes, num_healed

_LOG = logging.getLogger("sgc")


class LoadedEngine:
    """A running engine, and what calls need to know of its model.

    Attributes:
        eos_ids: ids that end a text, by the tokenizer or by the model's own configuration.
        max_positions: longest context of the model, in tokens.
        unconditional: known log-probabilities of token sequences without context.
        constraints: compiled constraints of this and earlier calls.
        token_chars: how many characters ids have.
        jump: see `EngineConfig`.
        warned: nodes whose constraint was reported to fight the model.
    """

    def __init__(
        self,
        model: Model,
        config: ModelConfig,
        vocabulary: Vocabulary,
        options: EngineOptions,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        kv_dtype = kv_format(options, dtype)
        self.budgets = budgets = _budgets(model, config, options, kv_dtype, device)
        settings = EngineConfig(
            kv_tokens=budgets.kv_tokens,
            max_running=budgets.max_running,
            prefill_tokens=budgets.prefill_tokens,
            mixed_tokens=budgets.mixed_tokens,
            reserve=options.reserve,
            order=options.order,
            priorities=options.priorities,
            claims=_claims(options, device),
            hints=options.hints,
            cache=options.cache,
            cache_tree=options.cache_tree,
            match_share=options.match_share,
            jump=options.jump,
            overlap=device.type == "cuda" if options.overlap is None else options.overlap,
        )
        self.profile = Profile(device) if options.profile else None
        profile = self.profile or NO_PROFILE
        runner = make_runner(model, config, options, budgets, kv_dtype, device, profile)
        self.engine = Engine(EngineCore(runner, settings, profile), device, profile)
        self.jump = settings.jump
        engine = self.engine
        self.constraints = ConstraintCompiler(
            self._constraint_tools, is_busy=lambda: engine.is_busy
        )
        self.warned: set[str] = set()
        self.vocabulary = vocabulary
        self.token_chars = TokenChars(vocabulary)
        self.vocab_size = config.vocab_size
        self.max_positions = config.max_positions
        self.seams = Seams(vocabulary, options.seam)
        self.eos_ids = frozenset(vocabulary.eos_ids) | frozenset(config.eos_token_ids)
        self.end_of_turn_ids = self.eos_ids | frozenset(vocabulary.end_of_turn_ids)
        self.unconditional: dict[tuple[int, ...], tuple[float, ...]] = {}
        self._calls_before = vocabulary.calls

    @cached_property
    def prefixes(self) -> TokenPrefixes:
        """All ids that the model may choose, by the beginning of their text."""
        num_ids = min(self.vocab_size, self.vocabulary.vocab_size)
        return TokenPrefixes(self.vocabulary.token_bytes, num_ids)

    def _constraint_tools(self) -> Tools:
        num_ids = min(self.vocab_size, self.vocabulary.vocab_size)
        return constraint_tools(self.vocabulary, num_ids, self.prefixes)

    def close(self) -> None:
        """End the engine; calls in flight fail. Masks that were made are kept for later runs."""
        self.engine.close()
        self.constraints.save()

    def num_healed(self, stream: TokenStream) -> int:
        """Ids at the end of the prompt of `stream` that a gen with `heal` generates anew."""
        ids = stream.ids[-MAX_HEALED_IDS - 1 :].tolist()
        return num_healed(ids, stream.literal_bytes, self.prefixes)

    def healing(self, ids: Ids) -> Healing | None:
        """What makes a gen spell the text of `ids` first; None for no ids."""
        return Healing(self.prefixes, ids.tolist()) if len(ids) else None

    def stats(self) -> dict[str, Any]:
        """Counters of the engine under the names of `--stats`, how many requests are `running` and
        `waiting` now, its `budgets`, and the `profile` where one is kept."""
        core, scheduler = self.engine.core, self.engine.core.scheduler
        counters = core.metrics.to_dict()
        asked = counters["prompt_tokens"]
        profile = {} if self.profile is None else {"profile": self.profile.to_dict()}
        return {
            **counters,
            **profile,
            "hit_rate": counters["cached_tokens"] / asked if asked else None,
            "mean_running": core.metrics.mean_running,
            "optimal_hit_rate": core.trie.optimal_hit_rate(),
            "ahead_tokens": scheduler.admission.ahead.num_tokens,
            "running": len(scheduler.prefilling) + len(scheduler.running),
            "waiting": len(scheduler.waiting),
            "budgets": asdict(self.budgets),
            "tokenizer_calls": self.vocabulary.calls - self._calls_before,
        }


def _budgets(
    model: Model,
    config: ModelConfig,
    options: EngineOptions,
    kv_dtype: torch.dtype,
    device: torch.device,
) -> Budgets:
    if device.type != "cuda":
        kv_tokens = pool_tokens(config, kv_dtype, options.kv_tokens, options.kv_memory)
        return cpu_budgets(options, kv_tokens)
    layers, heads, size = config.num_layers, config.num_kv_heads, config.head_dim
    sizes = Sizes(
        slot_bytes=bytes_per_token(layers, heads, size, kv_dtype),
        slot_numbers=heads * size,
        vocab_size=config.vocab_size,
        max_positions=config.max_positions,
        score_tokens=SCORE_TOKENS,
    )
    found = gpu_budgets(options, sizes, CudaMachine(model, config, options, kv_dtype, device))
    _LOG.info("%s: %s", device, describe(found))
    return found


def _claims(options: EngineOptions, device: torch.device) -> float:
    """Computing a prompt again is dear on a CPU; elsewhere more rows at once are worth more."""
    if options.claims is not None:
        return options.claims
    return 0.7 if device.type == "cpu" else 0.5


def load_engine(
    path: str | os.PathLike[str], vocabulary: Vocabulary, options: EngineOptions
) -> LoadedEngine:
    """Load the model at `path` and start its engine; takes seconds.

    Raises:
        ModelError: the model cannot be loaded.
        BackendError: options that cannot be.
    """
    from sgc_runtime.model.loader import load_model

    kept_in = cache_dir() / "converted"
    loaded = load_model(
        path,
        options.dtype,
        options.device,
        options.weights,
        kept_in,
        options.attention,
        options.deterministic,
        options.kv_dtype,
    )
    model = loaded.model
    try:
        engine = LoadedEngine(model, loaded.config, vocabulary, options, model.dtype, model.device)
    except SgcError:
        raise
    except Exception as error:  # a GPU that fails, a kernel that does not compile
        raise broken(f"the engine cannot start on device {model.device}", error) from error
    if model.device.type != "cpu":  # a step there takes less time than a full collection
        freeze_what_is_loaded()
    return engine
