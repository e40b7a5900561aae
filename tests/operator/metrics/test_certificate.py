"""The adapter's own certificate."""

import datetime

from forebay_operator.metrics.certificate import LIFE, Pair, make, serves

NOW = datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def test_a_new_pair_serves_until_shortly_before_its_end() -> None:
    pair = make("forebay-adapter", "forebay-system", NOW)
    assert serves(pair, NOW)
    assert serves(pair, NOW + LIFE - 31 * DAY)
    assert not serves(pair, NOW + LIFE - 29 * DAY)


def test_what_is_no_pair_does_not_serve() -> None:
    one, other = make("a", "b", NOW), make("a", "b", NOW)
    for pair in (Pair(b"", b""), Pair(b"x", one.key), Pair(one.certificate, b"x"), Pair(one.certificate, other.key)):
        assert not serves(pair, NOW)
