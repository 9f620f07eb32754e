"""The file of recorded backend calls: JSON lines, one header a session and one line a call.

A header holds the backend's name and its chat template, so that a replay needs neither model nor
network. A call line holds `node`, `row`, `kind`, `prompt`, `media` (digests), `params`, `text` (to
read) and `results` (exact, packed and in base64). Lines are only ever appended; one that was torn
by a crash ends without a newline and counts as not written.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sgc_ir.errors import RecordError
from sgc_ir.params import CallResult
from sgc_runtime.executor.backend import Call, ChatTemplate, Media, Message
from sgc_runtime.executor.chatml import ChatML
from sgc_runtime.journal.codec import pack_results, unpack_results
from sgc_runtime.journal.digests import DIGEST_BYTES

FORMAT = "sgc-record"
VERSION = 1
_TEXTS = ("node", "kind", "prompt", "results")  # members of a call line


def header_line(name: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """The first line of a session."""
    return {"format": FORMAT, "version": VERSION, "backend": name, "chat_template": dict(template)}


def check_header(line: Any, path: str) -> None:
    """Raise RecordError for what is no header of this version."""
    if not isinstance(line, dict) or line.get("format") != FORMAT:
        raise RecordError(f"{path} is no record of backend calls; make one with --record")
    if line.get("version") != VERSION:
        raise RecordError(
            f"{path} has version {line.get('version')}, this sgc reads {VERSION}; record it again"
        )
    if not isinstance(line.get("backend"), str) or not _is_template(line.get("chat_template")):
        raise RecordError(f"{path} has a header without backend or template; record it again")


def is_entry(line: Any) -> bool:
    """Whether a line can be one of a session: a call or a rendering."""
    if not isinstance(line, dict):
        return False
    if "rendering" in line:
        return _are(str, line["rendering"], line.get("text")) and _is_hex(line["rendering"])
    if type(line.get("row")) is not int or not _are(str, *(line.get(n) for n in _TEXTS)):
        return False
    return isinstance(line.get("params"), dict) and isinstance(line.get("media"), list)


def call_line(call: Call, media: Sequence[str], results: Sequence[CallResult]) -> dict[str, Any]:
    """The line of a call that has been answered."""
    return {
        **call_key(call, media),
        "text": [result.text for result in results],
        "results": b64encode(pack_results(results)).decode(),
    }


def call_key(call: Call, media: Sequence[str]) -> dict[str, Any]:
    """What a call is found by."""
    return {
        "row": call.row,
        "node": call.node,
        "kind": call.params.kind,
        "prompt": call.prompt,
        "media": list(media),
        "params": call.params.to_dict(),
    }


def results_of(line: Mapping[str, Any]) -> list[CallResult]:
    """The results of a call line. Raises ValueError or TypeError for damaged ones."""
    return unpack_results(b64decode(line["results"]))


def digest(line: Mapping[str, Any]) -> bytes:
    """Digest of a call's key, as it was recorded or as `call_key` gives it."""
    names = ("row", "node", "kind", "prompt", "media", "params")
    return _hash(encode({name: line[name] for name in names}).encode())


def encode(line: Mapping[str, Any]) -> str:
    """One line of JSON without its end; ASCII, so that half surrogate pairs pass."""
    return json.dumps(line, sort_keys=True, default=dict)


def media_digest(media: Media) -> str:
    """What stands for a picture or video."""
    data = (
        media.data.encode("utf-8", "surrogatepass") if isinstance(media.data, str) else media.data
    )
    return f"{media.kind}:{media.num_frames}:{_hash(data).hex()}"


# -- chat templates


def template_facts(template: ChatTemplate) -> dict[str, Any]:
    """All that it takes to render as `template` does; for one of an unknown kind its control
    tokens, and its renderings are recorded one by one."""
    controls = list(template.control_tokens)
    source = getattr(template, "source", None)
    variables = getattr(template, "variables", None)
    if isinstance(template, ChatML):
        return {"kind": "chatml", "control_tokens": controls}
    if variables is not None and (source is None or isinstance(source, str)):
        facts = {"kind": "jinja", "source": source, "variables": dict(variables)}
        return {**facts, "control_tokens": controls}
    return {"kind": "renderings", "control_tokens": controls}


def template_of(facts: Mapping[str, Any], renderings: Mapping[bytes, str]) -> ChatTemplate:
    """The template that `template_facts` described."""
    if facts["kind"] == "chatml":
        return ChatML()
    if facts["kind"] == "jinja":
        from sgc_runtime.tokenizer.chat import JinjaChatTemplate  # jinja only when needed

        return JinjaChatTemplate(facts["source"], facts["variables"], facts["control_tokens"])
    return Renderings(facts["control_tokens"], renderings)


def rendering_key(messages: Sequence[Message], add_generation_prompt: bool) -> bytes:
    """Digest of what a template is asked to render."""
    text = encode({"messages": [dict(m) for m in messages], "open": add_generation_prompt})
    return _hash(text.encode())


def _are(kind: type, *values: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


def _is_hex(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True


def _is_template(facts: Any) -> bool:
    if not isinstance(facts, dict) or not isinstance(facts.get("control_tokens"), list):
        return False
    if facts.get("kind") == "jinja":
        return isinstance(facts.get("variables"), dict) and "source" in facts
    return facts.get("kind") in ("chatml", "renderings")


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class Renderings:
    """A chat template that knows recorded renderings only."""

    def __init__(self, control_tokens: Sequence[str], renderings: Mapping[bytes, str]) -> None:
        self.control_tokens: Sequence[str] = tuple(control_tokens)
        self._renderings = renderings

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """The recorded text. Raises RecordError where these messages were not rendered."""
        text = self._renderings.get(rendering_key(messages, add_generation_prompt))
        if text is None:
            raise RecordError(
                "the record holds no rendering of these chat turns; they differ from the "
                "recorded run, record it again"
            )
        return text
