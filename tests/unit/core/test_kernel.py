from __future__ import annotations

import os

import pytest

from repotrial._core.kernel import read_notification_sizes, system_call


def test_a_call_by_name_does_what_the_library_does() -> None:
    assert system_call("getpid") == os.getpid()


def test_a_refusal_names_the_call() -> None:
    with pytest.raises(OSError, match="close: Bad file descriptor"):
        system_call("close", -1)


def test_the_kernel_says_how_large_its_notifications_are() -> None:
    notification, response = read_notification_sizes()
    assert notification >= 80
    assert response >= 24
