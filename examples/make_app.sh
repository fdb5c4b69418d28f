#!/usr/bin/env bash
# Makes a small git repository in which a merged change fixed a mistake and brought tests along: something to make a
# contract from. Usage: make_app.sh DIR
set -euo pipefail
mkdir -p "$1/app" "$1/tests"
cd "$1"
git init --quiet --initial-branch=main
commit() { git add . && git -c user.name=app -c user.email=app@example.com commit --quiet --message="$1"; }

printf '[project]\nname = "app"\nversion = "1"\n' >pyproject.toml
touch app/__init__.py
cat >app/fees.py <<'PYTHON'
"""What a customer pays for a late return."""

FREE_DAYS = 3
DAILY = 25


def fee(days_late: int) -> int:
    """Cents for a book that comes back so many days late."""
    return (days_late - FREE_DAYS) * DAILY
PYTHON
cat >tests/test_fees.py <<'PYTHON'
from app.fees import fee


def test_every_day_after_the_free_ones_costs():
    assert fee(5) == 50
PYTHON
commit "Fees for late returns"

sed -i 's/return .*/return max(0, days_late - FREE_DAYS) * DAILY/' app/fees.py
cat >>tests/test_fees.py <<'PYTHON'


def test_an_early_return_costs_nothing():
    assert fee(1) == 0


def test_a_return_before_the_day_costs_nothing():
    assert fee(-4) == 0
PYTHON
commit "Early returns cost nothing

Customers who brought a book back within the free days were paid for it."
