"""`torch.nn.attention`: implementations of flash attention that are registered, activated and removed by name."""

import logging

import pytest

from rushlight.nn import attention
from rushlight.nn.attention import _registry


class Handle:
    def __init__(self, log, name):
        self.log, self.name = log, name

    def remove(self):
        self.log.append(f"removed {self.name}")


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(
        _registry, "_implementations", {name: _registry._implementations[name] for name in ("FA3", "FA4")}
    )
    monkeypatch.setattr(_registry, "_active", [])
    made = []
    for name in "first", "second":

        def register(name=name):
            made.append(f"registered {name}")
            return Handle(made, name)

        attention.register_flash_attention_impl(name, register_fn=register)
    return made


def test_one_is_active_at_a_time(log, caplog):
    assert attention.list_flash_attention_impls() == ["FA3", "FA4", "first", "second"]
    assert attention.current_flash_attention_impl() is None
    attention.activate_flash_attention_impl("first")
    attention.activate_flash_attention_impl("second")
    assert attention.current_flash_attention_impl() == "second"
    attention.restore_flash_attention_impl()
    assert attention.current_flash_attention_impl() is None
    assert log == ["registered first", "removed first", "registered second", "removed second"]
    with caplog.at_level(logging.WARNING):
        attention.restore_flash_attention_impl()
    assert "Trying to restore default FA2 impl when no custom impl was activated" in caplog.text


def test_one_without_a_handle_is_not_active(log):
    attention.register_flash_attention_impl("none", register_fn=lambda: None)
    attention.activate_flash_attention_impl("none")
    assert attention.current_flash_attention_impl() is None


def test_errors(log):
    with pytest.raises(ValueError, match="^Unknown flash attention impl 'x'. Available implementations: "):
        attention.activate_flash_attention_impl("x")
    with pytest.raises((ImportError, NotImplementedError)):
        attention.activate_flash_attention_impl("FA3")
