"""ChatML, the chat template of the scripted backend and of programs that run without a backend."""

from __future__ import annotations

from collections.abc import Sequence

from sgc_runtime.executor.backend import Message
from sgc_runtime.executor.rendering import Splice


class ChatML:
    """ChatML without a default system turn.

    Each turn is `<|im_start|>ROLE\\nCONTENT<|im_end|>\\n`.
    """

    splice = Splice(head=1, period=1)
    control_tokens: Sequence[str] = ("<|im_start|>", "<|im_end|>")

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """The text of `messages`; with `add_generation_prompt` an assistant turn is opened."""
        turns = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages]
        if add_generation_prompt:
            turns.append("<|im_start|>assistant\n")
        return "".join(turns)
