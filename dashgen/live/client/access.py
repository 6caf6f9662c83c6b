# SPDX-License-Identifier: Apache-2.0
"""How a server is entered: credentials, certificates and a tenant, from the environment or from a file.

The file is the one that Prometheus' own tools take as ``--http.config.file``, so a site has it already. In the
environment every name begins with the server's, for example ``DASHGEN_PROMETHEUS_TOKEN_FILE``.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from dashgen.errors import UserError, one_line
from dashgen.guard.files import parse_yaml, read_text
from dashgen.guard.models import checked

LARGEST_FILE = 1_000_000  # bytes; chains of certificates are the largest of these files
TENANT = "X-Scope-OrgID"  # Mimir, Loki and Cortex; Thanos takes it with --query.tenant-header

VARIABLES = {
    "TOKEN": "a bearer token",
    "TOKEN_FILE": "a file with one",
    "USER": "the user of basic authentication",
    "PASSWORD": "the password",
    "PASSWORD_FILE": "a file with it",
    "TENANT": f"the value of {TENANT}",
    "CA_FILE": "certificates to trust instead of the system's",
    "CERT_FILE": "a certificate to show, for mTLS",
    "KEY_FILE": "its key",
    "HTTP_CONFIG": "a file with all of this, as of promtool --http.config.file",
}
"""What may stand in the environment, behind ``DASHGEN_PROMETHEUS_`` or ``DASHGEN_GRAFANA_``."""


@dataclass(frozen=True)
class Access:
    """Headers to send, texts that must never be shown, and the TLS context; nothing of it is printed."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = None


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Basic(_Section):
    username: str = ""
    password: SecretStr | None = None
    password_file: Path | None = None


class _Authorization(_Section):
    type: str = "Bearer"
    credentials: SecretStr | None = None
    credentials_file: Path | None = None


class _Tls(_Section):
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure_skip_verify: bool = False


class _Header(_Section):
    values: tuple[str, ...] = ()
    secrets: tuple[SecretStr, ...] = ()
    files: tuple[Path, ...] = ()


class _HttpConfig(_Section):
    """The part of Prometheus' ``http_config`` that a client needs."""

    basic_auth: _Basic | None = None
    authorization: _Authorization | None = None
    bearer_token_file: Path | None = None
    tls_config: _Tls = _Tls()
    http_headers: dict[str, _Header] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one(self) -> _HttpConfig:
        if sum(each is not None for each in (self.basic_auth, self.authorization, self.bearer_token_file)) > 1:
            raise ValueError("set only one of basic_auth, authorization and bearer_token_file")
        return self


def access(server: str, *, tenant: str | None = None, environment: Mapping[str, str] = os.environ) -> Access:
    """How to enter a server such as ``PROMETHEUS`` or ``GRAFANA``, as the environment says.

    ``tenant`` comes before the environment's. Raises UserError, which names the variable or the file and never its
    content, for what cannot be read or used.
    """
    given = {key: environment.get(f"DASHGEN_{server}_{key}", "") for key in VARIABLES}
    config, where = _HttpConfig(), f"DASHGEN_{server}_*"
    if given["HTTP_CONFIG"]:
        where = given["HTTP_CONFIG"]
        config = _http_config(Path(where))
    _check_whole(server, given)
    config = _with_environment(config, given)
    headers: dict[str, str] = {}
    secrets: list[str] = []
    base = Path(given["HTTP_CONFIG"]).parent if given["HTTP_CONFIG"] else Path()
    for name, value, hidden in _headers(config, base):
        headers[_sendable(name, where)] = _sendable(value, where)
        secrets += hidden
    if tenant := tenant or given["TENANT"]:
        headers[TENANT] = _sendable(tenant, "the tenant")
    return Access(headers, tuple(sorted({each for each in secrets if each}, key=len, reverse=True)), _tls(config, base))


def _check_whole(server: str, given: Mapping[str, str]) -> None:
    """Half a name and password, or two ways in, would send something else than is meant."""
    token, password = given["TOKEN"] or given["TOKEN_FILE"], given["PASSWORD"] or given["PASSWORD_FILE"]
    if token and (given["USER"] or password):
        raise UserError(f"DASHGEN_{server}_TOKEN and _USER: two ways to enter; unset one of them")
    if password and not given["USER"]:
        raise UserError(f"DASHGEN_{server}_PASSWORD: no name belongs to it; set DASHGEN_{server}_USER")
    if given["USER"] and not password:
        raise UserError(
            f"DASHGEN_{server}_USER: no password belongs to it; set DASHGEN_{server}_PASSWORD or _PASSWORD_FILE"
        )


def _with_environment(config: _HttpConfig, given: Mapping[str, str]) -> _HttpConfig:
    """What the environment says goes before what the file says."""
    changed: dict[str, object] = {}
    if given["TOKEN"] or given["TOKEN_FILE"]:
        secret = {"credentials": given["TOKEN"]} if given["TOKEN"] else {"credentials_file": given["TOKEN_FILE"]}
        changed = {"authorization": secret, "basic_auth": None, "bearer_token_file": None}
    elif given["USER"]:
        by_file = given["PASSWORD_FILE"] and not given["PASSWORD"]
        secret = {"password_file": given["PASSWORD_FILE"]} if by_file else {"password": given["PASSWORD"]}
        basic = {"username": given["USER"], **secret}
        changed = {"basic_auth": basic, "authorization": None, "bearer_token_file": None}
    files = {name.lower(): given[name] for name in ("CA_FILE", "CERT_FILE", "KEY_FILE") if given[name]}
    if files:
        changed["tls_config"] = {**config.tls_config.model_dump(), **files}
    return _HttpConfig.model_validate({**dict(config), **changed}) if changed else config


def _headers(config: _HttpConfig, base: Path) -> list[tuple[str, str, list[str]]]:
    """Names, values, and what of the value is secret."""
    found: list[tuple[str, str, list[str]]] = []
    if basic := config.basic_auth:
        password = _secret(basic.password, basic.password_file, base)
        both = base64.b64encode(f"{basic.username}:{password}".encode()).decode()
        found.append(("Authorization", f"Basic {both}", [both, password]))
    bearer = config.authorization
    if config.bearer_token_file:
        bearer = _Authorization(credentials_file=config.bearer_token_file)
    if bearer:
        token = _secret(bearer.credentials, bearer.credentials_file, base)
        found.append(("Authorization", f"{bearer.type} {token}", [token]))
    for name, header in config.http_headers.items():
        hidden = [one.get_secret_value() for one in header.secrets]
        hidden += [_secret(None, one, base) for one in header.files]
        found.append((name, ", ".join((*header.values, *hidden)), hidden))
    return found


def _secret(given: SecretStr | None, file: Path | None, base: Path) -> str:
    if file is not None:
        return _read(base / file).strip()
    return given.get_secret_value() if given else ""


def _sendable(text: str, where: str) -> str:
    """A text that fits into a header; the message does not repeat it, because it may be a secret."""
    if not text.isascii() or not text.isprintable():
        raise UserError(f"{where}: holds a character that no HTTP header can carry; look for line breaks and accents")
    return text


def _tls(config: _HttpConfig, base: Path) -> ssl.SSLContext | None:
    tls = config.tls_config
    if tls == _Tls():
        return None
    at = tls.ca_file or tls.cert_file or tls.key_file or Path()
    try:
        context = ssl.create_default_context(cafile=str(base / tls.ca_file) if tls.ca_file else None)
        if tls.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_file:
            at = tls.cert_file
            # Without a password callback OpenSSL would ask at the terminal.
            key = str(base / tls.key_file) if tls.key_file else None
            context.load_cert_chain(str(base / tls.cert_file), key, password=lambda: "")
    except (OSError, ValueError) as error:
        reason = one_line(getattr(error, "strerror", None) or error)
        raise UserError(f"{base / at}: not usable for TLS: {reason}; give PEM files") from error
    return context


def _http_config(path: Path) -> _HttpConfig:
    try:
        data = parse_yaml(_read(path))
    except ValueError as error:
        # The message might quote a secret.
        place = getattr(error.__cause__, "problem_mark", None)
        raise UserError(f"{path}: not YAML{f' in line {place.line + 1}' if place else ''}; mend it") from error
    return checked(_HttpConfig, data or {}, str(path), "write it as for promtool --http.config.file")


def _read(path: Path) -> str:
    return read_text(path, LARGEST_FILE, "check the path")
