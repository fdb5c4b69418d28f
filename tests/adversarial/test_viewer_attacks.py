"""Who else may reach a server on loopback: other sites, other names, other users; each is turned away."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from repotrial import api
from repotrial._core.errors import UsageError
from repotrial.trace import RunPaths
from support.score_runs import ScoreRun, write_run
from support.viewers import Served, Visitor, open_viewer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("viewer")
    write_run(place / "runs" / "one")
    with open_viewer(place / "runs", place) as found:
        yield found


PATHS = ("/", "/pilots", "/live", "/static/viewer.js", "/run/000000000000", "/nothing")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("cookie", ["", "repotrial-1=x", "other=1"])
def test_nothing_is_served_without_the_token(served: Served, path: str, cookie: str) -> None:
    status, text, _ = Visitor(served).ask(path, Cookie=cookie)
    assert status == 401
    assert "<html" not in text


@pytest.mark.parametrize("token", ["", "x", "é", "0" * 32])
def test_a_wrong_token_opens_nothing(served: Served, token: str) -> None:
    status, _, headers = Visitor(served).ask(f"/?{urlencode({'token': token})}", Cookie="")
    assert status == 401
    assert "Set-Cookie" not in headers


def test_the_token_opens_leaves_the_address_and_stays_out_of_reach_of_scripts(served: Served) -> None:
    visitor = Visitor(served)
    status, _, headers = visitor.ask(f"/pilots?token={served.token}&a=b", Cookie="")
    assert (status, headers["Location"]) == (303, "/pilots?a=b")
    assert all(word in headers["Set-Cookie"] for word in ("HttpOnly", "SameSite=Strict"))
    page = visitor.ask("/")[1]
    assert served.token not in page


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil"]
)
def test_dns_rebinding_another_name_gets_no_answer(served: Served, host: str) -> None:
    assert Visitor(served).ask("/", Host=host)[0] == 421


def test_this_machines_own_names_are_answered(served: Served) -> None:
    visitor = Visitor(served)
    port = visitor.host.rpartition(":")[2]
    assert [visitor.ask("/", Host=f"{name}:{port}")[0] for name in ("localhost", "127.0.0.1")] == [200, 200]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_site_gets_nothing_read_or_done(served: Served, origin: str, method: str) -> None:
    visitor = Visitor(served)
    path = visitor.find_run()
    status = visitor.ask(f"{path}/decide" if method == "POST" else path, method=method, Origin=origin)[0]
    assert status == 403


def test_every_answer_names_what_a_page_may_load(served: Served) -> None:
    visitor = Visitor(served)
    for path in ("/", visitor.find_run(), "/static/viewer.js", "/nothing"):
        headers = visitor.ask(path)[2]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


def test_a_page_of_the_report_room_runs_only_what_its_digests_name(served: Served) -> None:
    visitor = Visitor(served)
    _, text, headers = visitor.ask(visitor.find_run() + "/page")
    assert "Wide characters" in text
    policy = headers["Content-Security-Policy"]
    assert re.search(r"style-src 'sha256-[A-Za-z0-9+/=]+'", policy)
    assert "unsafe" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy, "the report's own script and no other"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[Visitor, Path]]:
    """A run whose harness waits for a person."""
    run = ScoreRun(tmp_path / "runs" / "one")
    inbox = tmp_path / "runs" / ".inbox" / "one"
    inbox.mkdir(parents=True)
    (inbox / "question.json").write_text("{}\n")
    with open_viewer(tmp_path / "runs", tmp_path) as found:
        yield Visitor(found), inbox / "answer.json"
    run.builder.writer.close()


def _find_form_key(page: str) -> str:
    (key,) = re.findall(r'name="key" value="([0-9a-f]+)"', page)
    return str(key)


def test_a_forged_form_decides_nothing_and_an_honest_one_does(waiting: tuple[Visitor, Path]) -> None:
    visitor, answer = waiting
    path = visitor.find_run()
    page = visitor.wait_for(path, "waits for your decision")
    honest = {"key": _find_form_key(page), "decision": "allow", "operator": "ann", "text": "looked at it"}
    for forged in (
        {**honest, "key": ""},
        {**honest, "key": "0" * 64},
        {name: value for name, value in honest.items() if name != "key"},
    ):
        assert visitor.ask(f"{path}/decide", method="POST", body=urlencode(forged))[0] == 403
    assert visitor.ask(f"{path}/decide", method="POST", body=urlencode(honest), Cookie="")[0] == 401
    for nonsense in ({**honest, "decision": "maybe"},):
        assert visitor.ask(f"{path}/decide", method="POST", body=urlencode(nonsense))[0] == 400
    for empty in ({**honest, "text": " "}, {**honest, "operator": ""}):
        status, text, _ = visitor.ask(f"{path}/decide", method="POST", body=urlencode(empty))
        assert (status, "expected a decision with its reason" in text) == (409, True)
    assert not answer.exists()
    assert visitor.ask(f"{path}/decide", method="POST", body=urlencode(honest))[0] == 303
    assert '"operator":"ann"' in answer.read_text()
    assert visitor.ask(f"{path}/decide", method="POST", body=urlencode(honest))[0] == 409, "once"


@pytest.mark.parametrize(
    "digest",
    [
        "../../../../etc/passwd",
        "..%2f..%2fmanifest.json",
        "sha256:" + "0" * 64,
        "sha256:../../trace.jsonl",
        "%00",
    ],
)
def test_no_file_but_a_body_is_handed_out(served: Served, digest: str) -> None:
    visitor = Visitor(served)
    status, text, _ = visitor.ask(f"{visitor.find_run()}/blob/{digest}")
    assert status in {400, 404}
    assert "root:" not in text


def test_a_body_is_text_to_be_saved_whatever_it_holds(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "runs" / "one")
    run.builder.tool(arguments="x", output=b"<script>alert(1)</script>" * 4000)
    run.end_acting()
    directory = run.finish()
    (body,) = [path for path in RunPaths(directory).blobs.rglob("*") if path.is_file()]
    with open_viewer(tmp_path / "runs", tmp_path) as served:
        visitor = Visitor(served)
        digest = f"sha256:{body.parent.name}{body.name}"
        status, text, headers = visitor.ask(f"{visitor.find_run()}/blob/{digest}")
    assert (status, text[:8]) == (200, "<script>")
    assert headers["Content-Type"].startswith("text/plain")
    assert headers["Content-Disposition"].startswith("attachment")
    assert "sandbox" in headers["Content-Security-Policy"]


def test_links_that_lead_out_of_a_run_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text("the operator's own file\n")
    run = write_run(tmp_path / "runs" / "one")
    RunPaths(run).trace.unlink()
    RunPaths(run).trace.symlink_to(secret)
    outside = write_run(tmp_path / "outside" / "two")
    (tmp_path / "runs" / "link").symlink_to(outside)
    with open_viewer(tmp_path / "runs", tmp_path) as served:
        visitor = Visitor(served)
        page = visitor.ask(visitor.find_run())[1]
        assert "the operator" not in page
        assert "Reading stopped" in page
        assert visitor.ask("/")[1].count('href="/run/') == 1


def test_every_address_at_once_is_refused(tmp_path: Path) -> None:
    machine = api.MachineSettings(cache=tmp_path, home=tmp_path, variables={})
    for host in ("0.0.0.0", "::", ""):
        settings = api.ViewerSettings(root=tmp_path, cache=tmp_path, host=host)
        with pytest.raises(UsageError, match="expected one address"):
            api.serve_runs(settings, machine, on_ready=lambda _: None, wait=lambda: None)
