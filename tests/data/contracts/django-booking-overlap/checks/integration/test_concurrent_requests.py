import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from bookings.errors import OverlapError
from bookings.models import Booking, Room
from bookings.tests.trial_unit.test_overlap_rules import HOUR, NINE


@pytest.mark.django_db(transaction=True)
def test_one_of_many_requests_wins():
    room = Room.objects.create(name="A")

    def reserve(_):
        try:
            Booking.objects.reserve(room, NINE, NINE + HOUR)
        except OverlapError:
            return 0
        finally:
            connections.close_all()
        return 1

    workers = int(os.environ["ROOMLY_WORKERS"])
    with ThreadPoolExecutor(workers) as pool:
        assert sum(pool.map(reserve, range(workers))) == 1
