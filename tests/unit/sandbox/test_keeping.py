from __future__ import annotations

import os
import signal

from repotrial.sandbox._levels._keeping import Keeper
from support.waiting import wait_until


def test_a_keeper_is_done_before_it_is_buried_and_after() -> None:
    """One thread may ask while another closes the sandbox."""
    keeper = Keeper({}, [])
    os.kill(keeper.pid, signal.SIGKILL)
    assert wait_until(keeper.is_done)
    assert os.waitpid(keeper.pid, 0)[0] == keeper.pid, "asking has not buried it"
    assert keeper.is_done()
    keeper.hang_up()
    keeper.await_end(0)
