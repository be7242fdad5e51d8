import pytest

pytest.register_assert_rewrite(
    "headgate.testing.sources",
    "headgate.testing.followed",
    "headgate.testing.wired",
    "headgate.testing.expect",
)
