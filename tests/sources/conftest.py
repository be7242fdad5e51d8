import pytest

pytest.register_assert_rewrite("headgate.testing")
