#!/usr/bin/env bash
set -euo pipefail
python manage.py collectstatic --noinput --verbosity 0
