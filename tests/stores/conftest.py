import pytest

pytest.register_assert_rewrite("headgate.testing.stores", "headgate.testing.expect")
