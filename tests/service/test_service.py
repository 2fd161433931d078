"""The system's daemon as a service of a real systemd."""


def test_the_first_client_starts_the_daemon(machine):
    assert machine.unit("ActiveState") == "inactive"
    assert machine.json("ps", user="alice", codes=(0, 3))["processes"] == []
    assert machine.unit("ActiveState", "SubState", "NRestarts") == {"ActiveState": "active", "SubState": "running",
                                                                     "NRestarts": "0"}


