"""The day and the hour, asked here and nowhere else, so that a test can set them.

Call it by its module, `clock.today()`: what replaces it then holds everywhere.
"""

from datetime import UTC, date, datetime


def today() -> date:
    """The day here."""
    return date.today()


def now() -> datetime:
    """The moment, in UTC."""
    return datetime.now(UTC)
