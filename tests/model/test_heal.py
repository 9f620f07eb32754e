"""Healing on the default model."""

from __future__ import annotations

import pytest
from support.local import backend, gen, run, stream

from sgc_runtime.models import DEFAULT_MODEL

pytestmark = pytest.mark.model


@pytest.mark.parametrize("text", ["My favourite colour is", "The capital of France is", "He said:"])
def test_a_blank_at_the_end_of_the_prompt_changes_nothing(text: str) -> None:
    """Unhealed, the model has read a lone blank and goes on with digits."""

    async def main() -> None:
        bare, blank = stream(local, text), stream(local, text + " ")
        plain = await gen(bare, max_tokens=8)
        healed = await gen(blank, max_tokens=8, heal=True)
        assert plain.text.startswith(" ")
        assert healed.text == plain.text[1:]
        assert blank.ids == bare.ids

    with backend(DEFAULT_MODEL) as local:
        run(main)
