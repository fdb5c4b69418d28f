import os

from roomly.settings.base import *  # noqa: F403

SECRET_KEY = os.environ.get("ROOMLY_SIGNING_KEY", "unsigned")
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "PASSWORD": os.environ["DATABASE_PASSWORD"],
        "HOST": os.environ["DATABASE_HOST"],
        "PORT": os.environ["DATABASE_PORT"],
    }
}
