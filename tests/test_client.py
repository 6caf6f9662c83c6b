# SPDX-License-Identifier: Apache-2.0
"""Strange, slow, large and hostile servers: one clear line each, within the time, and no secret in it."""

from __future__ import annotations

import gzip
import json
import math
import ssl
import traceback
from itertools import count
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from servers import Asked, Reply, answering, dripping, success, vector

from dashgen.errors import UserError
from dashgen.live.client.access import Access, access
from dashgen.live.client.answers import Alertmanagers, Rules, Values, read
from dashgen.live.client.api import Prometheus
from dashgen.live.client.http import Client, Limits, TooLarge

SECRET = "s3cr3t-t0ken"


pytestmark = pytest.mark.usefixtures("no_proxy")


def line(error: pytest.ExceptionInfo[UserError], longest: int = 400) -> str:
    """The message, checked to be one that can be shown."""
    said = str(error.value)
    assert "\n" not in said and said.isprintable() and len(said) <= longest and SECRET not in said, said
    return said


def refused(url: str, seconds: float = 20.0, largest: int = 1_000_000) -> str:
    """What is said about a server that cannot answer what ``up`` is."""
    server = Prometheus(Client(url, Access({"Authorization": SECRET}, (SECRET,)), Limits(seconds, largest)))
    with pytest.raises(UserError) as error:
        server.instant("up", 1.0)
    return line(error)


STRANGE = {
    "a login page": (Reply(b"<!DOCTYPE html><html>login</html>"), "answers with a web page"),
    "a list": (Reply(b"[]"), "not the answer of a Prometheus"),
    "nothing": (Reply(b""), "not the answer of a Prometheus"),
    "bytes": (Reply(b"\xff\xfe\x00"), "not the answer of a Prometheus"),
    "null for data": (success(None), "no data"),
    "null for a result": (success({"resultType": "vector", "result": None}), "data.vector.result"),
    "an unknown kind": (success({"resultType": "streams", "result": []}), "not the answer of a Prometheus"),
    "a list for an object": (success({"resultType": "vector", "result": [[]]}), "data.vector.result.0"),
    "a series without labels": (success({"resultType": "vector", "result": [{"value": [1, "2"]}]}), "0.metric"),
    "a series without value": (success({"resultType": "vector", "result": [{"metric": {}}]}), "0.value"),
    "a number as a label": (
        success({"resultType": "vector", "result": [{"metric": {"a": 1}, "value": [1, "2"]}]}),
        "0.metric.a",
    ),
    "NaN as a time": (
        Reply(b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[NaN,"1"]}]}}'),
        "finite number",
    ),
    "a time in 30000 years": (
        success({"resultType": "vector", "result": [{"metric": {}, "value": [1e12, "1"]}]}),
        "less than or equal",
    ),
    "a text as a time": (
        success({"resultType": "vector", "result": [{"metric": {}, "value": ["1", "1"]}]}),
        "valid number",
    ),
    "a word as a value": (
        success({"resultType": "vector", "result": [{"metric": {}, "value": [1, "many"]}]}),
        "valid number",
    ),
    "a lone surrogate": (
        Reply(b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"\\ud800"}}]}}'),
        "Invalid JSON",
    ),
    "deep nesting": (Reply(b'{"status":"success","data":' + b"[" * 100_000), "Invalid JSON"),
    "half an answer": (Reply(vector(({}, 1.0)).body[:-10]), "Invalid JSON"),
    "less than promised": (Reply(b"{", length=100), "breaks off"),
    "broken gzip": (Reply(b"\x1f\x8bnothing", headers={"Content-Encoding": "gzip"}), "breaks off"),
    "an error": (Reply(b'{"status":"error","error":"no\\n such thing"}'), "no such thing"),
    "an error with a secret": (
        Reply(f'{{"status":"error","error":"auth={SECRET}"}}'.encode()),
        "answers with an error: auth=***; look",
    ),
    "a label with a secret": (
        Reply(
            f'{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{"{SECRET}":1}}}}]}}}}'.encode()
        ),
        "metric.***",
    ),
    "401": (Reply(f"who is {SECRET}?".encode(), 401), "HTTP 401: who is ***?; give credentials"),
    "404 with a page": (Reply(b"<html>" + b"x" * 10_000, 404), "HTTP 404: an HTML page; check the address"),
    "422": (Reply(b'{"status":"error","error":"bad \\u001b[31m query"}', 422), "HTTP 422: bad"),
    "500 of many words": (Reply(b"word " * 5000, 500), "HTTP 500: word"),
    "another server": (Reply(b"", 302, {"Location": "http://169.254.169.254/"}), "redirects to another server"),
    "a redirect to nowhere": (Reply(b"", 307), "redirects to another server"),
    "a redirect that is none": (Reply(b"", 302, {"Location": "http://[::1"}), "redirects to another server"),
    "a circle": (Reply(b"", 302, {"Location": "/api/v1/query"}), "redirects in a circle"),
    "too much": (Reply(b"x" * 2_000_000), "more than 1 MB"),
    "a small bomb": (Reply(gzip.compress(b"\n" * 50_000_000), headers={"Content-Encoding": "gzip"}), "more than 1 MB"),
    "a status of its own": (Reply(b"", 299), "not the answer of a Prometheus"),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_a_strange_answer_is_told_in_one_line(strange: str) -> None:
    reply, message = STRANGE[strange]
    with answering(lambda _: reply) as (url, _):
        said = refused(url)
    assert said.startswith(url) and message in said


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"", b""),
    ],
    ids=["headers", "body", "chunks", "silence"],
)
def test_a_server_that_never_ends_is_left_when_the_time_is_over(begin: bytes, drop: bytes) -> None:
    with dripping(begin, drop) as url:
        assert "no answer within 0.5 s" in refused(url, seconds=0.5)


def test_a_server_that_is_not_there_is_not_reachable() -> None:
    assert "not reachable: Connection refused" in refused("http://127.0.0.1:1")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "prometheus:9090",
        "http://",
        "http://[::1",
        "http://a b",
        "http://x:99999",
        "http://x:y",
        "http://\ud800",
        "http://x\n",
        f"http://me:{SECRET}@prometheus",
        f"http://prometheus?token={SECRET}",
    ],
)
def test_an_address_that_is_none_is_refused_and_no_secret_repeated(url: str) -> None:
    with pytest.raises(UserError) as error:
        Client(url)
    line(error)


def test_what_cannot_be_sent_is_refused() -> None:
    with answering(lambda _: vector()) as (url, asked), pytest.raises(UserError, match="not UTF-8 text") as error:
        Prometheus(Client(url)).instant('{a="\ud800"}', 1.0)
    line(error)
    assert not asked


def test_a_busy_server_is_asked_again_and_not_waited_for_longer_than_there_is_time() -> None:
    turn = count()

    def reply(_: Asked) -> Reply:
        return Reply(b"", 429, {"Retry-After": "0"}) if next(turn) < 2 else vector(({}, 7.0))

    with answering(reply) as (url, asked):
        assert Prometheus(Client(url)).value("up", 1.0) == 7.0
        assert len(asked) == 3
    with answering(lambda _: Reply(b"busy", 503, {"Retry-After": "86400"})) as (url, asked):
        assert "HTTP 503: busy; it is busy or starting" in refused(url, seconds=5)
        assert len(asked) == 1
    with answering(lambda _: Reply(b"busy", 429, {"Retry-After": "soon"})) as (url, asked):
        assert "HTTP 429" in refused(url)
        assert len(asked) == 3


def test_a_redirect_on_the_same_host_is_followed_with_the_question_and_the_token() -> None:
    def reply(asked: Asked) -> Reply:
        return (
            vector(({}, 1.0))
            if asked.path.startswith("/prefix")
            else Reply(b"", 301, {"Location": f"/prefix{asked.path}"})
        )

    with answering(reply) as (url, asked):
        server = Prometheus(Client(url, Access({"Authorization": SECRET}, (SECRET,))))
        assert server.value("up", 1.0) == 1.0
    assert [(one.method, one.body, one.headers["Authorization"]) for one in asked] == [
        ("POST", b"query=up&time=1.000", SECRET)
    ] * 2


def test_credentials_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    token, config = tmp_path / "token", tmp_path / "http.yml"
    token.write_text(f"{SECRET}\n")
    config.write_text(
        f"basic_auth: {{username: me, password_file: {token}}}\nhttp_headers: {{X-Scope-OrgID: {{files: [team]}}}}\n"
    )
    (tmp_path / "team").write_text("team\n")
    found = {
        "token": access("PROMETHEUS", environment={"DASHGEN_PROMETHEUS_TOKEN": SECRET}),
        "file": access("PROMETHEUS", environment={"DASHGEN_PROMETHEUS_TOKEN_FILE": str(token)}),
        "user": access("X", tenant="a", environment={"DASHGEN_X_USER": "me", "DASHGEN_X_PASSWORD_FILE": str(token)}),
        "config": access("X", environment={"DASHGEN_X_HTTP_CONFIG": str(config)}),
    }
    sent = {}
    with answering(lambda _: vector()) as (url, asked):
        for name, entered in found.items():
            assert SECRET not in repr(entered) and SECRET in entered.secrets
            Prometheus(Client(url, entered)).instant("up", 1.0)
            sent[name] = (asked[-1].headers["Authorization"], asked[-1].headers.get("X-Scope-OrgID"))
    basic = "Basic bWU6czNjcjN0LXQwa2Vu"
    assert sent == {
        "token": (f"Bearer {SECRET}", None),
        "file": (f"Bearer {SECRET}", None),
        "user": (basic, "a"),
        "config": (basic, "team"),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"basic_auth: {{password: {SECRET}, user: me}}", "basic_auth.user: no such key"),
        (f"authorization: {{credentials: [{SECRET}]}}", "authorization.credentials"),
        (f"{SECRET}: [", "not YAML in line 2"),
        (f"authorization: {{credentials: '{SECRET}é'}}", "holds a character"),
        ("tls_config: {ca_file: none.pem}", "none.pem: not usable for TLS"),
        ("bearer_token_file: none", "none: No such file or directory; check the path"),
        ("bearer_token_file: /dev/zero", "not a regular file"),
        (f"authorization: {{credentials: {SECRET}}}\nbasic_auth: {{}}", "set only one of"),
    ],
)
def test_bad_credentials_name_the_place_and_not_the_secret(content: str, message: str, tmp_path: Path) -> None:
    config = tmp_path / "http.yml"
    config.write_text(content)
    with pytest.raises(UserError) as error:
        access("PROMETHEUS", environment={"DASHGEN_PROMETHEUS_HTTP_CONFIG": str(config)})
    assert message in line(error)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("PASSWORD",), "DASHGEN_X_PASSWORD: no name belongs to it"),
        (("USER",), "DASHGEN_X_USER: no password belongs to it"),
        (("TOKEN", "USER", "PASSWORD"), "two ways to enter"),
    ],
)
def test_half_a_way_in_and_two_of_them_are_refused(given: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError) as error:
        access("X", environment={f"DASHGEN_X_{name}": SECRET for name in given})
    assert message in line(error)


def test_a_private_ca_and_a_certificate_of_ones_own_open_a_guarded_server(tmp_path: Path) -> None:
    ca, mine = trustme.CA(), tmp_path / "mine.pem"
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca.issue_cert("me@example.org").private_key_and_cert_chain_pem.write_to_path(mine)
    guarded = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(guarded)
    ca.configure_trust(guarded)
    guarded.verify_mode = ssl.CERT_REQUIRED
    trusted = {"DASHGEN_PROMETHEUS_CA_FILE": str(tmp_path / "ca.pem")}
    with answering(lambda _: vector(({}, 1.0)), guarded) as (url, _):
        entered = access("PROMETHEUS", environment={**trusted, "DASHGEN_PROMETHEUS_CERT_FILE": str(mine)})
        assert Prometheus(Client(url, entered)).value("up", 1.0) == 1.0
        with pytest.raises(UserError, match=r"TLS fails|breaks off|not reachable") as error:
            Prometheus(Client(url, access("PROMETHEUS", environment=trusted))).value("up", 1.0)
        line(error)
        with pytest.raises(UserError, match="TLS fails") as error:
            Prometheus(Client(url)).value("up", 1.0)
        line(error)


def test_values_may_be_nan_and_infinite_and_names_anything() -> None:
    labels = {"__name__": "a.b", "k-8": "ü"}
    with answering(lambda _: vector((labels, math.nan), ({}, math.inf))) as (url, _):
        found = Prometheus(Client(url)).instant("x", 1.0)
    assert [(one.name, one.labels) for one in found] == [("a_b", (("k_8", "ü"),)), ("", ())]
    assert math.isnan(found[0].values[0]) and found[1].values[0] == math.inf


def test_a_span_with_too_many_samples_is_asked_for_in_halves() -> None:
    def reply(asked: Asked) -> Reply:
        seconds = int(asked.body.decode().split("%5B")[1].split("s%5D")[0])
        if seconds > 100:
            return Reply(b'{"status":"error","error":"query processing would load too many samples into memory"}', 422)
        if seconds > 50:
            return Reply(b" " * 2000)
        return success({"resultType": "matrix", "result": [{"metric": {}, "values": [[100, "1"], [400, "2"]]}]})

    with answering(reply) as (url, asked):
        server = Prometheus(Client(url, limits=Limits(largest=1000)))
        ((_, (times, values)),) = server.raw("x", 100.0, 400.0).items()
    assert (times.tolist(), values.tolist(), len(asked)) == ([100.0, 400.0], [1.0, 2.0], 15)


def test_a_million_series_are_refused_before_they_fill_the_memory() -> None:
    one = b'{"metric":{"__name__":"up","instance":"node-0000000.example.org:9100"},"value":[1,"1"]},'
    body = b'{"status":"success","data":{"resultType":"vector","result":[' + one * 1_000_000
    with answering(lambda _: Reply(body)) as (url, _), pytest.raises(TooLarge, match="more than 8 MB") as refused:
        Prometheus(Client(url)).instant("up", 1.0)
    held = [frame.f_locals.get("pieces") for frame, _ in traceback.walk_tb(refused.tb)]
    assert held.count([]) == 1 and not any(held), "what had come is not kept with the error"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1", "NaN", "vector", "matrix"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["status", "data", "resultType", "result", "metric", "value", "values", "groups", "rules"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([Values, Rules, Alertmanagers, list[str]]))
def test_any_json_is_read_or_refused_in_one_line(data: object, model: type[object]) -> None:
    for body in (json.dumps(data), json.dumps({"status": "success", "data": data})):
        try:
            read(body.encode(), model, "http://x", Client("http://x").clean)
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 400
