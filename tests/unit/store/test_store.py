"""Directories and buckets behave alike; what a store does not keep is found out in time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import RepoTrialError
from repotrial.store import Store, open_store, probe_store, verify_claims_hold
from support.stores import build_variables, make_bucket, open_faulty, open_s3


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with open_s3() as found:
        yield found


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return open_store(f"file:{tmp_path / 'store'}", {}, may_make=True)
    endpoint = request.getfixturevalue("endpoint")
    return open_store(make_bucket(endpoint), build_variables(endpoint))


def test_only_the_first_who_creates_gets_it(store: Store) -> None:
    winners = []

    def try_it(number: int) -> None:
        if store.create("claim/run/1", f"worker {number}".encode()):
            winners.append(number)

    threads = [threading.Thread(target=try_it, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert store.read("claim/run/1") == f"worker {winners[0]}".encode()


def test_a_repeated_request_finds_its_own_object(store: Store) -> None:
    assert store.create("claim/1", b"mine")
    assert store.create("claim/1", b"mine")
    assert not store.create("claim/1", b"another's")


def test_a_listing_is_in_order_and_begins_after_a_key(store: Store) -> None:
    for key in ("run/00002-b/claim.1", "run/00001-a/done", "run/00001-a/claim.1", "other/x"):
        store.replace(key, b"x")
    keys = [found.key for found in store.iter_objects("run")]
    assert keys == ["run/00001-a/claim.1", "run/00001-a/done", "run/00002-b/claim.1"]
    assert [found.key for found in store.iter_objects("run", after="run/00002")] == keys[2:]
    assert [*store.iter_objects("nothing")] == []


def test_a_file_goes_up_and_comes_down_with_one_digest(store: Store, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000  # more than one part
    (tmp_path / "up").write_bytes(data)
    assert store.upload("runs/x.tar", tmp_path / "up") == digest_bytes(data)
    assert store.download("runs/x.tar", tmp_path / "down") == digest_bytes(data)
    assert (tmp_path / "down").read_bytes() == data


def test_what_was_changed_in_the_store_is_not_taken(store: Store, tmp_path: Path) -> None:
    (tmp_path / "up").write_bytes(b"as it was written")
    digest = store.upload("runs/x.tar", tmp_path / "up")
    store.replace("runs/x.tar", b"something else")
    with pytest.raises(RepoTrialError, match="expected sha256:") as caught:
        store.verify_download("runs/x.tar", tmp_path / "down", digest)
    assert caught.value.code == "store-digest"
    assert not (tmp_path / "down").exists()


def test_a_missing_object_is_named(store: Store) -> None:
    assert store.find("plan/plan.json") is None
    with pytest.raises(RepoTrialError, match=r"plan/plan\.json: expected an object, found none") as caught:
        store.read("plan/plan.json")
    assert caught.value.code == "store-missing"


@pytest.mark.parametrize("key", ["../x", "a/../b", "/a", "a//b", ".hidden", "a b", ""])
def test_a_key_cannot_leave_the_store(store: Store, key: str) -> None:
    with pytest.raises(RepoTrialError, match="expected a key") as caught:
        store.replace(key, b"x")
    assert caught.value.code == "store-key"


def test_the_clock_is_the_stores_and_goes_on(store: Store) -> None:
    first = store.read_clock_us("clock/w1")
    assert store.read_clock_us("clock/w1") + store.clock_us >= first


def test_both_kinds_keep_what_claims_need(store: Store) -> None:
    promises = verify_claims_hold(store)
    assert promises.create == "kept"
    assert promises.update == ("not offered" if store.url.startswith("file:") else "kept")


def test_a_store_that_lies_about_conditions_is_refused(endpoint: str) -> None:
    url = make_bucket(endpoint)
    with open_faulty(endpoint) as (address, faults):
        faults.is_lying = True
        store = open_store(url, build_variables(address))
        assert probe_store(store).create == "broken"
        with pytest.raises(RepoTrialError, match="expected the second of two") as caught:
            verify_claims_hold(store)
        assert caught.value.code == "store-conditions"
        faults.is_lying = False
        verify_claims_hold(store)


def test_a_create_whose_answer_was_lost_is_still_ours(endpoint: str) -> None:
    url = make_bucket(endpoint)
    with open_faulty(endpoint) as (address, faults):
        store = open_store(url, build_variables(address))
        faults.loses_answers = 1
        assert store.create("claim/1", b"mine")


def test_wrong_credentials_are_one_clear_line(endpoint: str) -> None:
    with open_faulty(endpoint) as (address, faults):
        faults.is_denying = True
        store = open_store("s3://bucket/prefix", build_variables(address))
        with pytest.raises(RepoTrialError) as caught:
            store.read("plan/plan.json")
    assert caught.value.code == "store-refused"
    assert "\n" not in caught.value.message
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_an_outage_is_told_from_wrong_credentials(endpoint: str) -> None:
    url = make_bucket(endpoint)
    with open_faulty(endpoint) as (address, faults):
        store = open_store(url, build_variables(address))
        faults.failures = 2
        store.replace("a", b"x")  # a short one is not even seen
        faults.failures = 1000
        with pytest.raises(RepoTrialError) as caught:
            store.replace("a", b"x")
    assert caught.value.code == "store-unreachable"


@pytest.mark.parametrize("url", ["ftp://host/x", "runs", "S3://x", "http://host/x"])
def test_an_unknown_scheme_is_one_clear_line(url: str) -> None:
    with pytest.raises(RepoTrialError, match="expected the address of a store") as caught:
        open_store(url, {})
    assert caught.value.code == "store-url"


def test_a_missing_extra_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(RepoTrialError, match="expected the library obstore") as caught:
        open_store("s3://bucket/x", {})
    assert caught.value.code == "store-extra"
    assert "repotrial[store]" in caught.value.hint


def test_a_directory_that_is_not_there_is_not_made_by_readers(tmp_path: Path) -> None:
    with pytest.raises(RepoTrialError, match="expected a directory, found none"):
        open_store(f"file:{tmp_path / 'typo'}", {})
    assert not (tmp_path / "typo").exists()


def test_a_directory_without_rights_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    store = open_store(f"file:{tmp_path}", {})
    with pytest.raises(RepoTrialError, match="expected an answer") as caught:
        store.replace("file/x", b"x")
    assert caught.value.code == "store-unreachable"
