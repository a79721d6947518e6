"""What an agent is told: each value as it is sent (``…_values``), and what it becomes there (``…_of``)."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from dragstrip import workload
from dragstrip.contender import Entry, entry_of
from dragstrip.errors import BadUsage
from dragstrip.loading.request import LoadRequest
from dragstrip.record import Load
from dragstrip.scrutiny import Encryption
from dragstrip.workload import HTTP2, Asking, Data, Workload


def workload_values(asked: Workload) -> dict[str, str]:
    """A workload as it is sent: its name, and the text of its file."""
    return {"name": asked.name, "text": asked.source.text}


def workload_of(values: Mapping[str, str], folder: Path) -> Workload:
    """The workload that was sent; ``folder``: where its file may be written.

    Raises:
        BadDefinition: this version doesn't take it.
    """
    if values["name"] in workload.names():
        shipped = workload.load(values["name"])
        if shipped.source.text == values["text"]:
            return shipped
    file = folder / f"{values['name']}.toml"
    file.write_text(values["text"], encoding="utf-8")
    return workload.load(file)


def entry_values(entry: Entry) -> dict[str, Any]:
    """An entrant as it is sent: what makes the same one there."""
    return {
        "name": entry.name,
        "kind": entry.kind,
        "parameters": dict(entry.parameters),
        "definition_hash": entry.definition_hash,
        "for_workload": entry.contender.asking if entry.contender is not None else "",
    }


def entrant_of(values: Mapping[str, Any]) -> Entry:
    """The entrant that was sent.

    Raises:
        BadUsage: its definition is not here, or is another one.
    """
    made = entry_of(values["name"], values["kind"], values["parameters"])
    # A command is the one that was sent; its program is this machine's, and need not be on the other.
    if made.kind != "serve" and made.definition_hash != values["definition_hash"]:
        raise BadUsage(
            f"{made.name}: its definition on the servers' machine is another one "
            f"({made.definition_hash[:12]} there, {values['definition_hash'][:12]} here); copy the folder there"
        )
    wanted = values["for_workload"]
    return made.for_workload(wanted, asks_database=False) if wanted else made


def asking_values(workload: Workload, entry: Entry, drawn_by: str, cacert: str) -> dict[str, Any]:
    """What a launch is asked, as it is sent: what makes the same requests and answers there.

    Args:
        cacert: who signed its certificate, in PEM; "": it is asked in the clear.
    """
    own_form = workload.name in entry.own_forms
    framed = entry.http("1.1") == HTTP2
    told = {"mark": entry.mark, "own_form": own_form, "framed": framed, "drawn_by": drawn_by, "cacert": cacert}
    return {"workload": workload_values(workload), **told}


def asking_of(values: Mapping[str, Any], seed: int, folder: Path) -> Asking:
    """What was sent."""
    workload = workload_of(values["workload"], folder)
    data = workload.data(values["drawn_by"]) if values["drawn_by"] else Data()
    forms = {"own_form": values["own_form"], "framed": values["framed"]}
    return Asking(workload=workload, seed=seed, mark=values["mark"], data=data, **forms)


def encryption_of(values: Mapping[str, Any], folder: Path) -> Encryption | None:
    """How the launch that was sent is reached over TLS; None: in the clear. ``folder``: where its authority may lie."""
    if not values["cacert"]:
        return None
    file = folder / f"{hashlib.sha256(values['cacert'].encode()).hexdigest()[:16]}.pem"
    if not file.exists():
        part = file.with_suffix(f".{threading.get_ident()}")  # whoever else reads it must find all of it
        part.write_text(values["cacert"], encoding="ascii")
        part.replace(file)
    return Encryption(file, HTTP2 if values["framed"] else "1.1")


def load_values(load: Load) -> dict[str, Any]:
    """A load as it is sent."""
    return asdict(load)


def load_of(values: Mapping[str, Any]) -> Load:
    """The load that was sent."""
    return Load(**values)


class _Sent(BaseModel):
    """What ``dragstrip load`` asks for, as it is sent: bytes as base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    request: LoadRequest


def request_values(request: LoadRequest) -> dict[str, Any]:
    """What ``dragstrip load`` asks for, as it is sent."""
    return _Sent(request=request).model_dump(mode="json")


def request_of(values: Mapping[str, Any]) -> LoadRequest:
    """What was sent."""
    return _Sent.model_validate_json(json.dumps(values)).request
