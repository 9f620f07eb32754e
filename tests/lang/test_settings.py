"""The settings of a run are checked, and equal the sampling defaults."""

from __future__ import annotations

from dataclasses import fields

import pytest

import sgc
from sgc.settings import RunSettings, make_settings, sampling_fields


def test_every_setting_has_help_and_the_sampling_defaults_are_those_of_gen():
    assert all(f.metadata["help"] for f in fields(RunSettings))
    assert RunSettings().params == sgc.SamplingParams()
    assert RunSettings().temperature == 1.0
    assert RunSettings().max_tokens == 128
    assert RunSettings().seed == 0


def test_values_are_brought_into_form():
    settings = make_settings({"temperature": 0, "stop": "x", "max_tokens": None})
    assert settings.temperature == 0.0
    assert settings.params.stop == ("x",)
    assert settings.params.max_tokens == 128
    assert settings.params.greedy


@pytest.mark.parametrize(
    "values",
    [
        *({"top_p": 3}, {"max_tokens": 1.5}, {"mode": ""}, {"seed": True}, {"parallel": -1}),
        *({"plan": 1}, {"hints": "no"}, {"merge": "yes"}),
    ],
)
def test_bad_values_are_named(values):
    with pytest.raises(sgc.InputError, match=next(iter(values))):
        make_settings(values)


def test_sampling_fields_are_parameters_of_gen():
    names = {f.name for f in sampling_fields()}
    assert names < {f.name for f in fields(sgc.SamplingParams)}
    assert "n" not in names
    assert "seed" not in names
