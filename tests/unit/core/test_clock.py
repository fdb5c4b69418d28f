from __future__ import annotations

from repotrial._core.clock import MonotoneClock, SystemClock


class _Scripted:
    def __init__(self, *instants: int) -> None:
        self._instants = iter(instants)

    def now_us(self) -> int:
        return next(self._instants)


def test_time_moves_forward_even_when_the_machine_clock_stands_or_jumps_back() -> None:
    clock = MonotoneClock(_Scripted(10, 10, 5, 5, 100))
    assert [clock.now_us() for _ in range(5)] == [10, 11, 12, 13, 100]


def test_the_system_clock_fits_a_double() -> None:
    assert 2**50 < SystemClock().now_us() < 2**53
