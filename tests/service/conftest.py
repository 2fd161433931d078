"""Scenarios in a real systemd: ./dev service. `./dev test` runs those that are not marked long. The machine is booted once."""
import pytest

import machine as machines


@pytest.fixture(scope="session")
def booted():
    reason = machines.unavailable()
    if reason:
        pytest.skip(reason)
    machine = machines.Machine()
    try:
        machine.__enter__()
    except RuntimeError as error:
        # Is it this place, where no systemd comes up, or is it profd?
        try:
            with machines.Machine(install=False):
                pass
        except RuntimeError:
            pytest.skip(f"no systemd comes up in namespaces here: {error}")
        raise
    yield machine
    machine.close()


@pytest.fixture
def machine(booted):
    """The machine, with profd installed, its socket there, and nothing running yet."""
    yield booted
    booted.clean()


@pytest.fixture
def bare_machine():
    """Another machine, booted for this test alone, in which profd is not installed."""
    reason = machines.unavailable()
    if reason:
        pytest.skip(reason)
    with machines.Machine(install=False) as machine:
        yield machine
