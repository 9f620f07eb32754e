"""Steps of decode rows and steps by kernel against each sequence alone, with slots that are shared,
moved, taken back and reused."""

from __future__ import annotations

import pytest
from support.device import Fleet
from support.model import saved, tiny_model

from sgc_runtime.model.loader import LoadedModel, load_model

KINDS = ("llama", "qwen2", "qwen3", "mistral", "qwen2 windows")


@pytest.fixture(scope="module", params=KINDS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = saved(tiny_model(request.param), tmp_path_factory.mktemp("model"))
    return load_model(folder, "float32")


FORMS = {
    "graphs": {"max_graph_tokens": 64},
    "small graphs": {"max_graph_tokens": 6},
    "by kernel": {"graphs": False},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_logit_is_that_of_the_sequence_alone(loaded: LoadedModel, form: str) -> None:
    fleet = Fleet(loaded, seed=len(form), **FORMS[form])
    fleet.runner.warm_up()
    fleet.live(30)
    assert fleet.checked > 25
