import datetime as dt

import pytest

from bookings.errors import OverlapError
from bookings.models import Booking, Room

NINE = dt.datetime(2030, 1, 7, 9, tzinfo=dt.timezone.utc)
HOUR = dt.timedelta(hours=1)


@pytest.mark.django_db
def test_overlap_is_refused():
    room = Room.objects.create(name="A")
    Booking.objects.reserve(room, NINE, NINE + HOUR)
    with pytest.raises(OverlapError):
        Booking.objects.reserve(room, NINE + HOUR / 2, NINE + 2 * HOUR)


@pytest.mark.django_db
def test_touching_bookings_are_allowed():
    room = Room.objects.create(name="A")
    Booking.objects.reserve(room, NINE, NINE + HOUR)
    Booking.objects.reserve(room, NINE + HOUR, NINE + 2 * HOUR)
    assert Booking.objects.count() == 2
