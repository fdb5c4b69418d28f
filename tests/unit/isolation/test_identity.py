from __future__ import annotations

import os
import pwd

import pytest

from repotrial.isolation import Account, find_identity
from support.errors import raises_code


def test_nobody_is_root() -> None:
    found = find_identity()
    assert found.uid != 0
    assert found.gid != 0


def test_an_ordinary_user_stays_who_it_is_and_root_becomes_nobody_known() -> None:
    found = find_identity()
    if os.geteuid():
        assert found == Account(uid=os.geteuid(), gid=os.getegid())
    else:
        with pytest.raises(KeyError):
            pwd.getpwuid(found.uid)


def test_it_is_the_same_every_time() -> None:
    """What a sandbox leaves in a cache must belong to the next one too."""
    assert find_identity() == find_identity()


@pytest.mark.parametrize("account", [Account(uid=0, gid=1000), Account(uid=1000, gid=0)])
def test_root_cannot_be_asked_for(account: Account) -> None:
    with raises_code("sandbox-identity", match="found root"):
        find_identity(account)


def test_only_root_can_ask_for_somebody_else() -> None:
    other = Account(uid=54321, gid=54321)
    if os.geteuid():
        with raises_code("sandbox-identity", match="only root"):
            find_identity(other)
    else:
        assert find_identity(other) == other
