"""Ids equal transformers' on the same files; control-token look-alikes stay text."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tokenizer import (
    BYTE_LEVEL,
    CORPUS,
    KINDS,
    LOOK_ALIKES,
    Pair,
    encode_control,
    encode_prompt,
    plain_texts,
    save_directory,
    tricky_texts,
)

from sgc_ir.errors import InputError, ModelError
from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

ALL = [kind.name for kind in KINDS]
BY_NAME = {kind.name: kind for kind in KINDS}
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(text=tricky_texts())
def test_control_text_is_encoded_as_transformers_does(
    pairs: dict[str, Pair], name: str, text: str
) -> None:
    pair = pairs[name]
    assert encode_control(pair.ours, text) == pair.theirs.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(text=tricky_texts())
def test_ordinary_text_holds_no_control_token(pairs: dict[str, Pair], name: str, text: str) -> None:
    ours, theirs = pairs[name].ours, pairs[name].theirs
    ids = ours.encode(text)
    if not {*ours.control_texts.values()} & {token for token in LOOK_ALIKES if token in text}:
        assert ids == theirs.encode(text, add_special_tokens=False)
    if not text.startswith((" ", "\u2581")):  # there, a blank more or less is not to be seen
        assert ours.decode(ids) == _expected(name, text)
    if "\ufffd" not in text:
        assert not ours.control_ids & {*ids}


def _expected(name: str, text: str) -> str:
    if name == "qwen2":
        import unicodedata

        return unicodedata.normalize("NFC", text)
    return text if name in BYTE_LEVEL else text.replace("\u2581", " ")


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(text=plain_texts())
def test_token_bytes_spell_the_text(pairs: dict[str, Pair], name: str, text: str) -> None:
    ours = pairs[name].ours
    spelled = b"".join(map(ours.token_bytes, ours.encode(text, start=False)))
    assert spelled == _expected(name, text).encode()


@pytest.mark.parametrize("name", ALL)
def test_every_look_alike_is_text_of_its_own(pairs: dict[str, Pair], name: str) -> None:
    ours = pairs[name].ours
    for token_id, token in ours.control_texts.items():
        assert encode_control(ours, token) == [token_id]
        assert ours.token_bytes(token_id) == b""
        ids = ours.encode(f"x{token}y{token}", start=False)
        assert not ours.control_ids & {*ids}
        assert ours.decode(ids, start=False) == f"x{token}y{token}"


def test_control_tokens_of_each_kind(pairs: dict[str, Pair]) -> None:
    found = {name: {*pair.ours.control_texts.values()} for name, pair in pairs.items()}
    for name in ALL:
        assert found[name] >= {*BY_NAME[name].special}
    # Not special in the file, but the template writes turns with them.
    assert found["gemma"] == {"<unk>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"}
    # Markup that models write themselves is text, in one token.
    think = pairs["qwen2"].ours.encode("<think>")
    assert len(think) == 1
    assert pairs["qwen2"].ours.token_bytes(think[0]) == b"<think>"


@pytest.mark.parametrize("name", ALL)
@QUICK
@given(data=st.data())
def test_pieces_are_tokenised_as_one_text(
    pairs: dict[str, Pair], name: str, data: st.DataObject
) -> None:
    pair = pairs[name]
    specials = st.sampled_from(BY_NAME[name].special)
    piece = st.one_of(
        plain_texts().map(Text), st.builds(Text, specials, st.just(True)), st.just(Text("\n", True))
    )
    pieces = data.draw(st.lists(piece, max_size=6))
    whole = "".join(piece.text for piece in pieces)
    if not any(token in "".join(p.text for p in pieces if not p.control) for token in LOOK_ALIKES):
        assert pair.ours.encode_pieces(pieces) == pair.theirs.encode(
            whole, add_special_tokens=False
        )


@pytest.mark.parametrize("name", ALL)
def test_a_control_token_in_two_control_pieces_counts(pairs: dict[str, Pair], name: str) -> None:
    ours = pairs[name].ours
    token_id, token = next(iter(ours.control_texts.items()))
    halves = [Text(token[:2], True), Text("", False), Text(token[2:], True)]
    assert ours.encode_pieces(halves) == [token_id]
    assert token_id not in ours.encode_pieces([Text(token[:2], True), Text(token[2:])])


@pytest.mark.parametrize("name", ALL)
def test_raw_prompts_get_bos_as_transformers_gives_it(pairs: dict[str, Pair], name: str) -> None:
    pair = pairs[name]
    assert encode_prompt(pair.ours, [Text("The quick fox")]) == pair.theirs.encode("The quick fox")
    first = pair.theirs.encode("")[:1]
    assert pair.ours.bos_id == (first[0] if first else None)
    assert encode_prompt(pair.ours, [Text("<", True)]) == encode_control(pair.ours, "<")


@pytest.mark.parametrize("name", ["llama2", "mistral"])
def test_text_that_goes_on_gets_no_blank(pairs: dict[str, Pair], name: str) -> None:
    ours = pairs[name].ours
    ids = ours.encode("the fox") + ours.encode("es jump", start=False)
    assert ours.decode(ids) == "the foxes jump"
    assert ours.decode(ours.encode("es jump"), start=False) == " es jump"


def test_blank_in_front_of_text_behind_control_tokens(pairs: dict[str, Pair]) -> None:
    always, first, never = (pairs[name].ours for name in ("llama2", "mistral", "gemma"))
    eos = next(iter(always.eos_ids))
    text = always.encode("the fox")
    assert [t.at_start([]) for t in (always, first, never)] == [True, True, False]
    assert [t.at_start([t.bos_id]) for t in (always, first, never)] == [True, True, False]
    assert [t.at_start([*text, eos]) for t in (always, first, never)] == [True, False, False]
    assert not always.at_start(text)
    # As a whole prompt would be encoded, behind the token as well as in the middle.
    whole = encode_control(always, "the fox</s>jumps</s>over")
    cut = whole.index(eos) + 1
    assert whole[cut:] == encode_control(always, "jumps</s>over", start=True)
    going_on = encode_control(always, "es</s>jumps", start=False)
    assert going_on[going_on.index(eos) :] == whole[cut - 1 : cut + len(always.encode("jumps"))]


def test_ends(pairs: dict[str, Pair]) -> None:
    ours = pairs["qwen2"].ours
    end = ours.control_id("<|im_end|>")
    assert ours.eos_ids == {end}
    assert ours.end_of_turn_ids == {end}
    gemma = pairs["gemma"].ours
    assert gemma.end_of_turn_ids == {gemma.control_id("<eos>"), gemma.control_id("<end_of_turn>")}
    assert pairs["mistral"].ours.end_of_turn_ids == {pairs["mistral"].ours.control_id("</s>")}
    assert pairs["gpt2"].ours.end_of_turn_ids == pairs["gpt2"].ours.eos_ids


def test_generation_config_names_more_ends(tmp_path: Path) -> None:
    save_directory(BY_NAME["llama-bpe"], tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 3, 99999999]}')
    ours = load_tokenizer(tmp_path)
    assert ours.eos_ids == {0, 3}  # an id without a token is no end


def test_unknown_ids_have_no_bytes(pairs: dict[str, Pair]) -> None:
    ours = pairs["smollm"].ours
    assert ours.token_bytes(ours.vocab_size) == b""
    assert ours.vocab_size == len(pairs["smollm"].theirs)


def test_calls_are_counted_across_threads(pairs: dict[str, Pair]) -> None:
    ours = pairs["smollm"].ours
    before = ours.calls
    expected = [ours.encode(text) for text in CORPUS]
    with ThreadPoolExecutor(8) as pool:
        for ids in pool.map(lambda i: ours.encode(CORPUS[i % len(CORPUS)]), range(400)):
            assert ids in expected
    assert ours.calls == before + len(CORPUS) + 400
    assert ours.encode("") == []
    assert ours.calls == before + len(CORPUS) + 400


def test_half_a_surrogate_is_refused_with_its_place(pairs: dict[str, Pair]) -> None:
    with pytest.raises(InputError, match="character 3"):
        pairs["smollm"].ours.encode("abc\ud800")


def test_files_without_tokenizer_json_are_converted(pairs: dict[str, Pair], tmp_path: Path) -> None:
    model = pairs["gpt2"].data["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges), encoding="utf-8")
    config = {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    text = "The quick <|endoftext|> don't 2024 😀"
    assert load_tokenizer(tmp_path).encode(text) == pairs["gpt2"].ours.encode(text)


def test_named_special_tokens_count_even_if_the_file_lists_them_not(
    pairs: dict[str, Pair], tmp_path: Path
) -> None:
    shutil.copytree(pairs["smollm"].folder, tmp_path, dirs_exist_ok=True)
    data = {**pairs["smollm"].data, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    ours = load_tokenizer(tmp_path)
    assert {*ours.control_texts.values()} == {"<|im_start|>", "<|im_end|>"}
    assert encode_control(ours, "a<|im_end|>") == encode_control(
        pairs["smollm"].ours, "a<|im_end|>"
    )


_EMPTY = {"tokenizer.json": '{"model": {"type": "BPE", "vocab": {}, "merges": []}}'}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "has no tokenizer.json"),
        ({"tokenizer.json": "{"}, "cannot read"),
        ({"tokenizer.json": "[]"}, "not a JSON object"),
        ({"tokenizer.json": "{}"}, "holds no tokenizer model"),
        (
            {"tokenizer.json": '{"model": {"type": "WordPiece", "vocab": {"a": 0}}}'},
            "WordPiece",
        ),
        ({"tokenizer.json": '{"model": {"type": "BPE", "vocab": 3, "merges": []}}'}, "known form"),
        (
            {"tokenizer.json": '{"model": {"type": "BPE", "vocab": {}, "merges": [1]}}'},
            "known form",
        ),
        ({"tokenizer.json": '{"model": {"type": "BPE", "vocab": {}, "merges": ["a"]}}'}, "damaged"),
        ({"generation_config.json": '{"eos_token_id": [[1]]}', **_EMPTY}, "damaged .TypeError"),
        ({"tokenizer_config.json": '{"chat_template": [[1]]}', **_EMPTY}, "damaged .TypeError"),
        (
            {"tokenizer_config.json": '{"added_tokens_decoder": [1]}', **_EMPTY},
            "damaged .Attribute",
        ),
    ],
)
def test_broken_directories_are_refused_in_one_line(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ModelError, match=reason) as caught:
        load_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)
