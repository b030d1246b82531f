"""Requests that are refused before they reach a handler: one test for each rule."""

from __future__ import annotations

import random
import socket
import ssl
from pathlib import Path

import httpx
import pytest

from flykka.errors import ClusterError
from flykka.rest.settings import RestSettings
from tests.flykka.rest.conftest import JOB, Serve, Served

pytestmark = pytest.mark.slow

TOKEN = "token-of-the-tests"
PARTS = {
    "jobid": JOB,
    "applicationid": "a",
    "datasetid": "d" * 32,
    "vertexid": "sink",
    "checkpointid": "1",
    "triggerid": "t",
}


def test_an_address_reachable_from_outside_needs_a_token() -> None:
    with pytest.raises(ValueError, match=r"0\.0\.0\.0 can be reached from other machines"):
        RestSettings(host="0.0.0.0")
    assert RestSettings(host="0.0.0.0", token_file="token").port == 0


@pytest.mark.parametrize("address", ["", "host", ":", "a:b", "1:2:x", "70000", "-1"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"PORT|not a port"):
        RestSettings.at(address)


def test_a_valid_address_is_parsed() -> None:
    assert RestSettings.at("8081") == RestSettings(port=8081)
    assert RestSettings.at("localhost:8081").host == "localhost"
    assert RestSettings.at("[::1]:0").host == "::1"


def test_every_request_needs_the_token_if_one_is_set(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    served = serve(RestSettings(token_file=str(file)))

    def status(**headers: str) -> int:
        return served.ask_without_token("GET", "/jobs", headers=headers).status_code

    assert status() == 401
    assert status(authorization="Bearer other") == 401
    assert status(authorization=TOKEN) == 401
    assert status(authorization=f"Bearer {TOKEN}") == 200
    refused = served.ask_without_token("GET", "/jobs")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["errors"][0].startswith("this request needs a token, in the header `Authorization: Bearer")


@pytest.mark.slow
@pytest.mark.parametrize(
    "base", ["", *(pytest.param(base, marks=pytest.mark.long) for base in ("/v1", "/flink", "/flink/v1"))]
)
def test_each_route_with_side_effects_needs_the_token(served: Served, base: str) -> None:
    described = served.http.get("/openapi.json").json()["paths"]
    acting = {("get", "/jobs/{jobid}/yarn-cancel")}
    acting |= {(method, path) for path, methods in described.items() for method in methods if method != "get"}

    assert len(acting) >= 11
    assert {(m, p) for p, methods in described.items() for m, each in methods.items() if "security" in each} == acting
    for method, path in sorted(acting):
        named = f"{base}{path}".format_map(PARTS)
        answer = served.ask_without_token(method.upper(), named)
        assert (named, answer.status_code) == (named, 401)
        assert "flykka token" in answer.json()["errors"][0]
    for method, path in sorted(acting - {("delete", "/cluster")}):
        answer = served.http.request(method.upper(), path.format_map({**PARTS, "jobid": "f" * 32}))
        assert (path, answer.status_code) != (path, 401)
    assert not served.job.done()


def test_a_read_only_request_needs_no_token(served: Served) -> None:
    assert served.ask_without_token("GET", "/jobs/overview").status_code == 200


def test_without_a_token_flinks_clients_may_make_changes(serve: Serve) -> None:
    served = serve(RestSettings(no_token=True))

    assert served.server.token is None
    assert served.ask_without_token("PATCH", f"/jobs/{JOB}?mode=cancel").status_code == 202
    with pytest.raises(ValueError, match="opposites"):
        RestSettings(no_token=True, token_file="token")
    with pytest.raises(ValueError, match="can be reached from other machines"):
        RestSettings(host="0.0.0.0", no_token=True)


def test_a_wrong_token_is_refused_before_the_body_arrives(served: Served) -> None:
    address = ("127.0.0.1", int(served.server.address.rpartition(":")[2]))
    head = f"POST /jobs/{JOB}/stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection(address, timeout=10) as way:
        way.sendall(head.encode())

        assert way.recv(65_536).startswith(b"HTTP/1.1 401 ")


def test_a_truncated_request_does_not_stop_a_job(served: Served, tmp_path: Path) -> None:
    address = ("127.0.0.1", int(served.server.address.rpartition(":")[2]))
    head = (
        f"PATCH /jobs/{JOB}?mode=cancel HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {served.server.token}\r\nContent-Length: 9\r\n\r\n"
    )
    with socket.create_connection(address, timeout=10) as way:
        way.sendall(head.encode())
        way.shutdown(socket.SHUT_WR)
        assert b" 202 " not in way.recv(65_536)

    assert served.http.get(f"/jobs/{JOB}/status").json()["status"] in ("CREATED", "RUNNING")


def test_a_request_with_two_lengths_is_refused_and_disconnected(served: Served) -> None:
    address = ("127.0.0.1", int(served.server.address.rpartition(":")[2]))
    head = b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection(address, timeout=10) as way:
        way.sendall(head)
        answer = b""
        while part := way.recv(65_536):
            answer += part

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'{"errors":["a request has either Content-Length or Transfer-Encoding"]}' in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_short_token_is_refused(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("short")

    with pytest.raises(ClusterError, match="has 5 characters: it must have 16"):
        serve(RestSettings(token_file=str(file)))


def test_an_address_in_use_is_refused(served: Served, serve: Serve) -> None:
    port = int(served.server.address.rpartition(":")[2])

    with pytest.raises(ClusterError, match=f"no REST interface at 127.0.0.1:{port}: .*in use"):
        serve(RestSettings(port=port))


def test_a_foreign_host_header_is_refused(served: Served) -> None:
    answer = served.http.get("/jobs", headers={"host": "evil.example"})

    assert answer.status_code == 403
    assert "evil.example" in answer.json()["errors"][0]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", f"/jobs/{JOB}?mode=cancel"),
        ("POST", f"/jobs/{JOB}/savepoints"),
        ("POST", f"/v1/jobs/{JOB}/stop"),
        ("POST", "/savepoint-disposal"),
        ("GET", f"/jobs/{JOB}/yarn-cancel"),
        ("GET", f"/v1/jobs/{JOB}/yarn-cancel"),
    ],
)
@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_requests_of_other_sites_change_nothing(
    served: Served, method: str, path: str, headers: dict[str, str]
) -> None:
    assert served.http.request(method, path, headers=headers).status_code == 403
    assert not served.job.done()


def test_the_page_of_this_server_may_make_changes(served: Served) -> None:
    headers = {"origin": served.server.address, "sec-fetch-site": "same-origin"}

    assert served.http.patch(f"/jobs/{JOB}?mode=cancel", headers=headers).status_code == 202


def test_oversized_requests_are_refused(served: Served) -> None:
    assert served.http.post(f"/jobs/{JOB}/savepoints", content=b"x" * 70_000).status_code == 413
    assert served.http.get("/jobs", headers={"x": "y" * 70_000}).status_code in (400, 431)
    assert served.http.get("/jobs").status_code == 200


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 50_000])
def test_a_body_that_is_not_an_object_is_refused(served: Served, body: bytes) -> None:
    answer = served.http.post(f"/jobs/{JOB}/savepoints", content=body)

    assert answer.status_code == 400
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("body", [{"target-directory": 7}, {"cancel-job": "yes"}, {"triggerId": ["x"]}])
def test_a_field_of_another_type_is_named(served: Served, body: dict[str, object]) -> None:
    answer = served.http.post(f"/jobs/{JOB}/savepoints", json={"target-directory": "/s", **body})

    assert answer.status_code == 400
    assert repr(next(iter(body))) in answer.json()["errors"][0]


def test_uploads_are_refused(served: Served) -> None:
    assert served.http.post("/jars/upload", content=b"x").status_code == 404
    assert served.http.get("/config").json()["features"]["web-submit"] is False


@pytest.mark.parametrize(
    "requests", [1_500, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(1200)])]
)
def test_malformed_requests_are_answered_or_disconnected_without_side_effects(served: Served, requests: int) -> None:
    chance = random.Random(7)
    address = ("127.0.0.1", int(served.server.address.rpartition(":")[2]))
    for number in range(requests):
        with socket.create_connection(address, timeout=10) as way:
            way.sendall(_malformed(chance))
            way.shutdown(socket.SHUT_WR)
            answer = b""
            while part := way.recv(65_536):
                answer += part
        assert b"Traceback" not in answer, number
        assert b" 500 " not in answer.partition(b"\r\n")[0], number

    assert served.http.get("/jobs").status_code == 200


def _malformed(chance: random.Random) -> bytes:
    method = chance.choice(["GET", "POST", "PATCH", "BREW", "", "G\0T", "DELETE"])
    part = chance.choice([JOB, "%00", "..%2f..", "\xff", "a" * 3_000, "{jobid}", "-1", "1e9", "'--", "%zz"])
    path = chance.choice(["/jobs/", "/v1/jobs/", "/taskmanagers/", "//", "", "/jobs/" + JOB + "/vertices/"]) + part
    query = chance.choice(
        ["", "?get=", "?get=" + "," * 500, "?subtasks=9-1,x", "?maxExceptions=-7", "?maxExceptions=9e9"]
    )
    version = chance.choice(["HTTP/1.1", "HTTP/1.0", "HTTP/9", "", "HTTP/1.1 x"])
    headers = [
        chance.choice(["Host: 127.0.0.1", "Host:", "Host: [", "X"]),
        chance.choice(
            ["Content-Length: 5", "Content-Length: -1", "Content-Length: x", "Transfer-Encoding: chunked", ""]
        ),
        chance.choice(["Authorization: Bearer", "If-None-Match: *", "Origin: null", "Cookie: \0", "A: b"]),
    ]
    body = chance.choice([b"", b"{", b'{"a":', b"\x00" * 50, b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n"])
    head = "\r\n".join([f"{method} {path}{query} {version}", *headers, "", ""])
    return head.encode("latin-1", "replace") + body


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ValueError, match="TLS needs both"):
        RestSettings(certificate="cert.pem")


def test_tls_is_used_if_there_is_a_certificate(serve: Serve, tmp_path: Path) -> None:
    certificate, key = _self_signed(tmp_path)
    served = serve(
        RestSettings(certificate=str(certificate), key=str(key)), verify=ssl.create_default_context(cafile=certificate)
    )

    assert served.server.address.startswith("https://127.0.0.1:")
    assert served.http.get("/jobs").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(served.server.address, timeout=10)


def _self_signed(folder: Path) -> tuple[Path, Path]:
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "flykka")]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
