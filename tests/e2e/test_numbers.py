"""Numbers of captures are never given twice, and an agent that is back is armed once it has let go of what nobody knows."""
import contextlib
import errno
import json
import os
import pathlib
import signal
import socket
import struct

import pytest

import fake_agent as fake
from conftest import BUILD, wait_for
from test_disk_full import CREATE, Disk, settings


@pytest.fixture
def unnoted(empty_profd):
    """A daemon that cannot write the note of a capture."""
    profd = empty_profd
    profd.start_daemon(*settings(profd))
    profd.stop_daemon()
    profd.disk = Disk(profd.folder / "control")
    profd.env.update(LD_PRELOAD=str(BUILD / "workloads" / "libfailing.so"), FAILING_FOLDER=str(profd.store / "captures"),
                     FAILING_CONTROL=str(profd.folder / "control"), ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
    profd.start_daemon(*settings(profd))
    del profd.env["LD_PRELOAD"], profd.env["ASAN_OPTIONS"]
    profd.disk.fail(1, 10000, errno.EAGAIN, CREATE)
    return profd


@contextlib.contextmanager
def triggered(profd, *more):
    """`profd trigger` of this process, which is the agent."""
    client = profd.follow("--pid", os.getpid(), "--steps", 3, *more)
    yield client
    client.kill()
    client.communicate()


def said(agent, seconds):
    """The next message, None where there is none for so long."""
    try:
        kind, packet, fds = agent.receive(seconds)
    except socket.timeout:
        return None
    for fd in fds:
        os.close(fd)
    return kind, struct.unpack_from("<Q", packet, 8)[0]


def offer(agent, capture, trigger, fd, active):
    agent.say(fake.OFFER, struct.pack("<QQII", capture, trigger, active, 0), [fd] if fd is not None else ())


def record(agent):
    begun = agent.begin()
    agent.chunk(0, b"".join(fake.step(n + 1, begun + 1000 * n, 1000) for n in range(3)), 1)
    agent.phase(fake.END, steps=3, warmup=1)
    agent.done()


def killed_after_arm(profd):
    """The agent's side of a capture of which there is no note when the daemon is killed, and the client that is still to hear of it."""
    agent = fake.Agent(profd.socket)
    client = triggered(profd)
    waiting = client.__enter__()
    agent.arm()
    wait_for(lambda: profd.disk.failed, 10, "the note to fail")
    waiting.send_signal(signal.SIGSTOP)
    profd.stop_daemon(signal.SIGKILL)
    agent.close()
    profd.disk.heal()
    profd.start_daemon(*settings(profd))
    return agent, client, waiting


@pytest.mark.parametrize("active,closed", [(0, False), (1, False), (1, True)], ids=["ended", "recording", "closed"])
def test_a_number_is_not_given_twice(unnoted, active, closed):
    """The trigger comes between the hello of an agent and its offer of a capture that nobody knows."""
    old, context, client = killed_after_arm(unnoted)
    agent = fake.Agent(unnoted.socket, orphans=1)
    client.send_signal(signal.SIGCONT)
    assert said(agent, 1.5) is None, "armed before it has offered what it has"
    assert client.poll() is None
    # The job may have closed the segment.
    offer(agent, old.capture, old.trigger, None if closed else old.fd, active)
    assert said(agent, 5) == (fake.FINISH, old.capture)
    if active:
        assert said(agent, 5) == (fake.CANCEL, old.capture)
        assert said(agent, 1) is None, "armed before it has let go"
    agent.done(reason=5 if active else 0, capture=old.capture)
    agent.arm()
    assert agent.capture > old.capture
    record(agent)
    out, err = client.communicate(timeout=30)
    assert client.returncode == 0, err
    assert [(row["status"], row["capture_id"]) for row in json.loads(out)["captures"]] == [("complete", f"u{agent.capture}")]
    context.__exit__(None, None, None)


def test_offers_that_never_come(unnoted):
    """An agent that does not keep its word is asked all the same; the client is told what comes of it."""
    old, context, client = killed_after_arm(unnoted)
    agent = fake.Agent(unnoted.socket, orphans=3)
    client.send_signal(signal.SIGCONT)
    packet, fds = wait_for(lambda: (lambda said: said[1:] if said[0] == fake.ARM else None)(agent.receive(20)), 20, "ARM")
    os.close(fds[0])
    out, err = client.communicate(timeout=30)
    assert client.returncode == 1 and "does not answer" in out + err, (out, err)
    context.__exit__(None, None, None)


def test_cancelled_while_it_waits_for_the_agent(profd):
    agent = fake.Agent(profd.socket, orphans=1)
    with triggered(profd) as client:
        assert said(agent, 0.5) is None
        capture = wait_for(lambda: profd.process(os.getpid())["capture_id"], 10, "the trigger")
        profd.run("cancel", capture)
        out, err = client.communicate(timeout=10)
        assert client.returncode == 130, (out, err)
    assert said(agent, 0.5) is None
    wait_for(lambda: profd.process(os.getpid())["state"] == "idle", 10, "the trigger to be gone")


def test_an_end_without_a_beginning(profd):
    """An agent that ends what it has not begun: whoever waits for it is told."""
    agent = fake.Agent(profd.socket)
    with triggered(profd) as client:
        packet, (fd,) = agent.wait_for(fake.ARM)
        wait_for(lambda: list((profd.store / "captures").glob("*.armed")), 10, "the note")
        agent.done(capture=struct.unpack_from("<Q", packet, 8)[0])
        os.close(fd)
        out, err = client.communicate(timeout=10)
        assert client.returncode == 1 and "without a word of its beginning" in out + err, (out, err)


def test_numbers_go_on(profd):
    """Ended in order a daemon leaves no gap; killed, a small one; and without its catalogue it gives no number anew."""
    def capture():
        agent = fake.Agent(profd.socket)
        with triggered(profd) as client:
            agent.arm()
            record(agent)
            out, err = client.communicate(timeout=30)
            assert client.returncode == 0, err
        agent.close()
        return agent.capture

    numbers = [capture()]
    for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        profd.stop_daemon(how)
        profd.start_daemon()
        numbers.append(capture())
    profd.run("rm", *(f"u{number}" for number in numbers))
    profd.stop_daemon()
    for file in profd.store.glob("catalogue.db*"):
        file.unlink()
    profd.start_daemon()
    numbers.append(capture())
    first, second, third, fourth, fifth = numbers
    assert second == first + 1 and second < third <= second + 17 and fourth == third + 1 and fifth == fourth + 1, numbers


@pytest.mark.parametrize("content", [b"", b"x" * 21, b"99999999999999999999\n", b"-0000000000000000001\n", b"\xff" * 100])
def test_a_damaged_file_of_numbers(profd, content):
    profd.stop_daemon()
    (profd.store / "numbers").write_bytes(content)
    profd.start_daemon()
    agent = fake.Agent(profd.socket)
    with triggered(profd):
        agent.arm()
    assert agent.capture == 1


@pytest.mark.parametrize("what", ["link", "fifo", "folder"])
def test_a_file_of_numbers_that_is_none(profd, what):
    profd.stop_daemon()
    file = profd.store / "numbers"
    file.unlink()
    other = pathlib.Path(profd.folder) / "other"
    {"link": lambda: file.symlink_to(other), "fifo": lambda: os.mkfifo(file), "folder": file.mkdir}[what]()
    profd.start_daemon()
    agent = fake.Agent(profd.socket)
    with triggered(profd):
        agent.arm()
    assert agent.capture == 1 and not other.exists()
    assert "two captures may get the same number" in profd.daemon_log.read_text()
