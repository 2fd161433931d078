"""Metrics: what they say is what happened, in all three ways out; and nobody can do harm through them."""
import http.client
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

import pytest

import fake_agent as fake
from conftest import BUILD, Patient, quiet, stop, wait_for
from ports import free_port
from proc import of_threads
from prometheus import Metrics, program

STEPS = BUILD / "workloads" / "steps"
as_root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")


def metrics(profd):
    return Metrics(profd.run("metrics").stdout)


def configure(profd, **keys):
    """Starts the daemon with these settings."""
    path = profd.folder / "profd.conf"
    path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return profd.start_daemon("--config", path)


def switches(pid):
    """How often the daemon's threads have gone to sleep."""
    total = 0
    for text in of_threads(pid, "status").values():
        for line in text.splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def check(text):
    """promtool finds nothing to say."""
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, ""), done


# --- the numbers


def test_a_daemon_that_has_done_nothing(profd):
    """What is not known is absent, not 0; and promtool has nothing to say."""
    seen = metrics(profd)
    assert not [name for name, _ in seen if name.startswith(("profd_step_seconds", "profd_last_step", "profd_job_"))]
    assert seen.value("profd_processes") == 0
    assert seen.value("profd_store_limit_captures") is None and seen.value("profd_store_limit_bytes") == 50 << 30
    assert [labels["version"] for labels in seen.series("profd_build_info")] == \
        [profd.run("version").stdout.split()[-1]]
    assert abs(seen.value("profd_start_time_seconds") - time.time()) < 60
    assert abs(seen.value("profd_exposition_timestamp_seconds") - time.time()) < 60
    disk = os.statvfs(profd.store)
    assert seen.value("profd_store_size_bytes") == disk.f_blocks * disk.f_frsize
    assert 0 < seen.value("profd_store_floor_bytes") <= 1 << 30
    assert seen.value("profd_process_open_fds") > 5
    assert 1 << 20 < seen.value("profd_process_resident_memory_bytes") < 1 << 30
    assert seen.sum("profd_captures_total") == seen.sum("profd_triggers_total") == seen.sum("profd_events_lost_total") == 0
    assert seen.value("profd_connections", kind="client") == 1
    check(seen.text)


def test_numbers_are_what_happened(profd):
    job = profd.job(STEPS, "--step-ms=5", "--ranges=4", env={"PROFD_JOB": "77"})
    pid = job.pid
    profd.wait_steps(pid, 20)
    stop(pid)  # no step comes in between
    began = time.time()
    before = metrics(profd)
    row = profd.process(pid)
    os.kill(pid, signal.SIGCONT)
    assert before.value("profd_step_seconds", job_id="77") == pytest.approx(row["step_ns"] / 1e9, rel=0.01)
    assert before.value("profd_job_processes", job_id="77") == before.value("profd_processes") == 1
    assert abs(before.value("profd_last_step_timestamp_seconds", job_id="77") - began) < 60

    ids = [profd.trigger(pid)["capture_id"], profd.trigger(pid, "--duration", "500ms")["capture_id"]]
    limited = profd.trigger(pid, "--steps", 10, "--max-events", 20, codes=(5,))
    ids.append(limited["capture_id"])
    timed_out = profd.trigger(pid, "--steps", 100000, "--timeout", "5s", codes=(4, 5))
    ids.append(timed_out["capture_id"])
    assert profd.run("trigger", "--pid", 1, check=False).returncode == 3
    assert profd.run("trigger", "--name", "nobody*", check=False).returncode == 3
    running = profd.json("trigger", "--pid", pid, "--steps", 100000, "--no-wait")["captures"][0]["capture_id"]
    wait_for(lambda: profd.process(pid)["state"] == "recording", what="the recording")
    assert profd.run("trigger", "--pid", pid, check=False).returncode == 8
    meanwhile = metrics(profd)
    assert meanwhile.value("profd_captures_running", status="recording") == meanwhile.sum("profd_captures_running") == 1
    profd.run("cancel", running)
    ids.append(running)
    wait_for(lambda: metrics(profd).sum("profd_captures_running") == 0, what="the captures to end")
    os.kill(pid, signal.SIGKILL)
    job.wait()
    wait_for(lambda: metrics(profd).value("profd_processes") == 0, what="the process to be gone")

    seen = metrics(profd)
    assert not seen.series("profd_step_seconds")
    assert seen.value("profd_captures_total", status="complete", reason="none") == 2
    for reason in ("limit", "deadline", "cancelled"):
        assert seen.value("profd_captures_total", status="incomplete", reason=reason) == 1, reason
    assert seen.sum("profd_captures_total") == 5 == seen.value("profd_derive_seconds_count")
    assert seen.value("profd_triggers_total", outcome="accepted") == 5
    assert seen.value("profd_triggers_total", outcome="no_agent") == 1
    assert seen.value("profd_triggers_total", outcome="no_such_target") == 1
    assert seen.value("profd_triggers_total", outcome="busy") == 1
    assert seen.sum("profd_triggers_total") == 8

    rows = profd.json("captures")["captures"]
    assert {row["capture_id"] for row in rows} == set(ids)
    assert seen.value("profd_events_total") == sum(row["events"] for row in rows)
    assert seen.value("profd_steps_recorded_total") == sum(row["steps_recorded"] for row in rows)
    assert seen.sum("profd_events_lost_total") == sum(row["lost"] for row in rows) > 0
    assert seen.value("profd_store_captures") == len(rows)
    assert seen.value("profd_store_bytes") == sum(row["bytes"] for row in rows)
    losses, flaws = {}, {}
    for capture in ids:
        with sqlite3.connect(f"file:{profd.file(capture)}?mode=ro", uri=True) as file:
            for loss, count, is_loss in file.execute("SELECT loss, count, is_loss FROM losses"):
                which = losses if is_loss else flaws
                which[loss] = which.get(loss, 0) + count
    assert {l["loss"]: seen.value("profd_events_lost_total", **l) for l in seen.series("profd_events_lost_total")
            if seen.value("profd_events_lost_total", **l)} == losses
    assert {l["flaw"]: seen.value("profd_events_flawed_total", **l) for l in seen.series("profd_events_flawed_total")
            if seen.value("profd_events_flawed_total", **l)} == flaws
    assert seen.value("profd_ingest_events_total") >= seen.value("profd_events_total")
    assert seen.value("profd_ingest_bytes_total") >= 8 * seen.value("profd_ingest_events_total")
    assert seen.value("profd_ingest_queue_chunks") == 0
    assert seen.value("profd_loop_latency_seconds_count") > 20 and seen.value("profd_loop_turn_seconds_count") > 20

    profd.run("rm", *ids[:2])
    after = metrics(profd)
    assert after.value("profd_captures_deleted_total", reason="rm") == 2
    gone = sum(row["bytes"] for row in rows if row["capture_id"] in ids[:2])
    assert after.value("profd_captures_deleted_bytes_total", reason="rm") == gone
    assert after.value("profd_store_bytes") == seen.value("profd_store_bytes") - gone
    assert all(after[key] >= seen[key] for key in seen if key[0].endswith(("_total", "_bucket", "_count", "_sum")))
    check(after.text)


def test_a_process_that_dies(profd):
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid, 2)
    profd.run("trigger", "--pid", job.pid, "--steps", 100000, "--no-wait")
    wait_for(lambda: profd.process(job.pid)["state"] == "recording", what="the recording")
    job.kill()
    wait_for(lambda: metrics(profd).value("profd_captures_total", status="incomplete", reason="died") == 1,
             what="the capture to be counted")


def test_chunks_that_wait(profd):
    """Events of a job that the daemon has not taken in, counted while they wait."""
    agent = fake.Agent(profd.socket)
    with fake.connect(profd.socket) as connection:
        fake.send(connection, "trigger", **fake.trigger_fields())
        agent.arm()
        begun = agent.begin(4)
        # A chunk whose sequence is beyond what the agent says it gave out waits for the next pass, and the next.
        for index in range(3):
            agent.chunk(index, fake.step(1, begun, 1000), 100 + index, state=fake.OWNED)
        agent.map[fake.SEQUENCE:fake.SEQUENCE + 4] = (0).to_bytes(4, "little")
        # Not before: a pass may come in between.
        for index in range(3):
            agent.hand_over(index)
        assert metrics(profd).value("profd_ingest_queue_chunks") == 3
        agent.map[fake.SEQUENCE:fake.SEQUENCE + 4] = (200).to_bytes(4, "little")
        wait_for(lambda: metrics(profd).value("profd_ingest_queue_chunks") == 0, what="the chunks to be taken")
        agent.close()


HOSTILE = ['a"} 1\nprofd_processes 666', "back\\slash\\", "\xe9\u20ac\U0001f600", "x" * 127, "other", "{}#,=", "   "]


def test_hostile_jobs(empty_profd):
    """Names cannot break the text or claim another series; beyond metrics_jobs all is one, and the large ones stay."""
    profd = empty_profd
    configure(profd, metrics_jobs=3)
    jobs = [profd.job(STEPS, "--step-ms=20", env={"PROFD_JOB": name}) for name in HOSTILE]
    jobs += [profd.job(STEPS, "--step-ms=40", env={"PROFD_JOB": "large"}) for _ in range(3)]
    for job in jobs:
        profd.wait_steps(job.pid, 4)
    for job in jobs:
        stop(job.pid)  # no step comes in between
    seen = metrics(profd)
    large = [row["step_ns"] / 1e9 for row in profd.json("ps")["processes"] if row["job"] == "large"]
    check(seen.text)
    ids = {labels["job_id"]: seen.value("profd_job_processes", **labels)
           for labels in seen.series("profd_job_processes")}
    assert seen.value("profd_processes") == len(jobs) == sum(ids.values())
    assert len(ids) == 4 and ids["large"] == 3 and ids["other"] == len(jobs) - 5
    assert len(large) == 3 and 0.99 * min(large) <= seen.value("profd_step_seconds", job_id="large") <= 1.01 * max(large), large
    assert len(seen.series("profd_step_seconds")) == 4


def test_names_stand_in_for_jobs(profd):
    job = profd.job(STEPS, "--step-ms=5", env={"PROFD_NAME": 'n"1'})
    profd.wait_steps(job.pid, 2)
    assert metrics(profd).value("profd_job_processes", job_id='n"1') == 1


# --- who may


@as_root
def test_strangers(empty_profd):
    """Of the system's daemon the metrics are for root and the group; of a user's own for that user."""
    profd = empty_profd
    with tempfile.TemporaryDirectory(prefix="profd-open-") as folder:
        os.chmod(folder, 0o755)
        profd.socket = pathlib.Path(folder) / "profd.sock"
        profd.env["PROFD_SOCKET"] = str(profd.socket)
        daemon = os.environ.get("PROFD_DAEMON", str(BUILD / "bin" / "profd-daemon"))
        with open(profd.daemon_log, "ab") as log:
            profd.daemon = Patient([daemon, "--dir", str(profd.store), "--socket", str(profd.socket)],
                                   env=profd.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: profd.run("status", check=False).returncode == 0, 10, "the daemon")
        assert metrics(profd).value("profd_processes") == 0
        script = (f"import sys, json; sys.path.insert(0, {str(profd.for_all_users(fake.__file__))!r}); import fake_agent\n"
                  f"fds = []\nprint(json.dumps([fake_agent.ask({str(profd.socket)!r}, 'metrics', descriptors=fds), len(fds)]))")
        nobody = pwd.getpwnam("nobody").pw_uid
        done = subprocess.run(["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups", sys.executable, "-c",
                               script], capture_output=True, text=True, cwd="/", timeout=120)
        rows, descriptors = json.loads(done.stdout)
        assert descriptors == 0 and rows[0]["error"]["code"] == "not_permitted", done
        assert "group profd" in rows[0]["error"]["message"]


# --- the file


def test_textfile(empty_profd):
    """Whole whenever it is read, readable by others, links at its names not followed, gone with the daemon."""
    profd = empty_profd
    folder = profd.folder / "node"
    folder.mkdir()
    victim = profd.folder / "victim"
    victim.write_text("untouched")
    file = folder / "profd.prom"
    file.symlink_to(victim)
    (folder / ".profd.prom.tmp").symlink_to(victim)
    configure(profd, metrics_textfile=file, metrics_interval="1s")
    wait_for(lambda: not file.is_symlink(), what="the file")
    assert file.stat().st_mode & 0o7777 == 0o644
    stamps = set()

    def look():
        seen = Metrics(file.read_text())
        stamps.add(seen.value("profd_exposition_timestamp_seconds"))
        assert seen.value("profd_process_threads") > 3
        assert set(os.listdir(folder)) <= {"profd.prom", ".profd.prom.tmp"}
        return len(stamps) == 4
    wait_for(look, what="three further ones")
    # One a second.
    assert max(stamps) - min(stamps) > 1.5, stamps
    assert victim.read_text() == "untouched"
    check(file.read_text())
    profd.stop_daemon()
    assert os.listdir(folder) == []


def test_textfile_moves_with_the_settings(empty_profd):
    """SIGHUP: the old file is removed, the new one written; without the key there is none, and nothing runs."""
    profd = empty_profd
    one, two = profd.folder / "one.prom", profd.folder / "two.prom"
    configure(profd, metrics_textfile=one)
    wait_for(one.exists, what="the file")
    for path in (two, ""):
        (profd.folder / "profd.conf").write_text(f"metrics_textfile = {path}\n")
        profd.daemon.send_signal(signal.SIGHUP)
        wait_for(lambda: two.exists() == bool(path) and not one.exists(), what="the files to change")
    quiet(lambda: switches(profd.daemon.pid), 1.5)


def test_textfile_without_its_folder(empty_profd):
    """Said once, until it is there; the daemon does its work meanwhile."""
    profd = empty_profd
    file = profd.folder / "later" / "profd.prom"
    configure(profd, metrics_textfile=file, metrics_interval="1s")
    said = lambda: profd.daemon_log.read_text().count("cannot write")
    wait_for(lambda: said() == 1, what="the log's line")
    time.sleep(2.2)
    assert said() == 1 and profd.run("metrics").returncode == 0
    file.parent.mkdir()
    wait_for(file.exists, what="the file")
    wait_for(lambda: "is written again" in profd.daemon_log.read_text(), what="the log's line")


@as_root
def test_textfile_on_a_full_disk(empty_profd):
    """The old file stands; nothing is left beside it; it goes on when there is room."""
    profd = empty_profd
    folder = profd.folder / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        file = folder / "profd.prom"
        configure(profd, metrics_textfile=file, metrics_interval="1s")
        wait_for(file.exists, what="the file")
        with open(folder / "ballast", "wb", buffering=0) as ballast, pytest.raises(OSError):
            while True:
                ballast.write(b"x" * 4096)
        wait_for(lambda: "No space left" in profd.daemon_log.read_text(), what="the log's line")
        stamp = Metrics(file.read_text()).value("profd_exposition_timestamp_seconds")
        assert sorted(os.listdir(folder)) == ["ballast", "profd.prom"]
        (folder / "ballast").unlink()
        wait_for(lambda: Metrics(file.read_text()).value("profd_exposition_timestamp_seconds") > stamp, what="a new file")
        profd.stop_daemon()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_node_exporter_reads_the_file(empty_profd):
    exporter = program("prometheus-node-exporter")
    profd = empty_profd
    folder = profd.folder / "node"
    folder.mkdir()
    configure(profd, metrics_textfile=folder / "profd.prom", metrics_interval="1s")
    job = profd.job(STEPS, "--step-ms=5", env={"PROFD_JOB": 'a"} 1\\'})
    profd.wait_steps(job.pid, 2)
    port = free_port()
    node = subprocess.Popen([exporter, f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults",
                             "--collector.textfile", f"--collector.textfile.directory={folder}"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        def read():
            try:
                text = fetch(port).read().decode()
            except OSError:
                return None
            return text if 'profd_job_processes{job_id="a\\"} 1\\\\"} 1' in text else None
        text = wait_for(read, what="the job in node_exporter's answer")
        assert "node_textfile_scrape_error 0" in text and "profd_process_resident_memory_bytes" in text
    finally:
        node.kill()
        node.communicate()


# --- the listener


def fetch(port, path="/metrics", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def raw(port, request, timeout=40):
    """All that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.sendall(request)
        answer = b""
        while True:
            try:
                more = connection.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return answer
            answer += more


@pytest.fixture
def page(empty_profd):
    port = free_port()
    configure(empty_profd, metrics_port=port)
    return empty_profd, port


def test_listener(page):
    profd, port = page
    answer = fetch(port)
    body = answer.read().decode()
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert int(answer.headers["Content-Length"]) == len(body) and answer.headers["Connection"] == "close"
    seen = Metrics(body)
    assert set(seen.types) == set(metrics(profd).types)
    head = fetch(port, method="HEAD")
    assert head.status == 200 and int(head.headers["Content-Length"]) > 1000 and head.read() == b""
    assert fetch(port, "/metrics?a=b").status == 200
    for path, status in (("/", 404), ("/metrics/x", 404), ("//metrics", 404)):
        assert fetch(port, path).status == status, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        refused = fetch(port, method=method)
        assert refused.status == 405 and refused.headers["Allow"] == "GET, HEAD"
    assert fetch(port, Host="profd.evil.example").status == 421
    assert fetch(port, method="GET", Cookie="c" * 9000).status == 431
    assert raw(port, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    # Only its own side is closed: the answer still comes.
    with socket.create_connection(("127.0.0.1", port), timeout=40) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"\n")
    addresses = {line.split()[1] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
                 if line.split()[3] == "0A"}
    assert f"0100007F:{port:04X}" in addresses and f"00000000:{port:04X}" not in addresses


def test_hostile_visitors(page):
    """Silent, slow and broken ones keep nobody out, and leave nothing behind."""
    profd, port = page
    assert fetch(port).status == 200
    descriptors = lambda: len(os.listdir(f"/proc/{profd.daemon.pid}/fd"))
    before = descriptors()
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    deaf = []
    for i in range(30):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        deaf.append(connection)
    took = []
    for _ in range(3):
        began = time.monotonic()
        assert fetch(port).status == 200
        took.append(time.monotonic() - began)
    # Who waited for them would have waited for the five seconds that each has.
    assert min(took) < 4.5, took
    assert descriptors() <= before + 20
    for garbage in (b"\0" * 100, b"\x16\x03\x01\x02\x00", b"GET /metrics HTTP/1.1\n\n\r\n\r\n", b"\r\n" * 5000,
                    random.Random(1).randbytes(20000), b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n" + b"x" * 99,
                    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100):
        answer = raw(port, garbage)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 "), garbage[:40]
        assert answer.count(b"HTTP/1.1 ") <= 1
    # One byte a time: five seconds for all of them, of fifty.
    began = time.monotonic()
    slow = socket.create_connection(("127.0.0.1", port), timeout=40)
    try:
        for byte in b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000:
            slow.sendall(bytes([byte]))
            time.sleep(0.05)
        pytest.fail("the slow one was never sent away")
    except OSError:
        assert time.monotonic() - began > 4.9
    for connection in silent + deaf + [slow]:
        connection.close()
    assert profd.run("status").returncode == 0
    wait_for(lambda: descriptors() <= before, what="the connections to be closed")


def test_a_taken_port(empty_profd):
    """Is said; the daemon does its work without the page."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        configure(empty_profd, metrics_port=taken.getsockname()[1])
        assert "metrics_port: no metrics on 127.0.0.1" in empty_profd.daemon_log.read_text()
        assert metrics(empty_profd).value("profd_processes") == 0


def test_prometheus_scrapes(page):
    """A real Prometheus: the page, the label of jobs as it is written, and the examples' expressions."""
    prometheus, (profd, port) = program("prometheus"), page
    job = profd.job(STEPS, "--step-ms=5", env={"PROFD_JOB": "77"})
    profd.wait_steps(job.pid, 2)
    own = free_port()
    config = profd.folder / "prometheus.yml"
    config.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: profd\n  static_configs:\n"
                      f"  - targets: ['127.0.0.1:{port}']\n")
    server = subprocess.Popen([prometheus, f"--config.file={config}", f"--storage.tsdb.path={profd.folder / 'tsdb'}",
                               f"--web.listen-address=127.0.0.1:{own}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def ask():
            try:
                answer = json.load(fetch(own, "/api/v1/query?query=profd_job_processes"))
            except (OSError, ValueError):  # it is not ready yet
                return None
            return answer.get("data", {}).get("result")
        result, = wait_for(ask, 30, what="Prometheus to have scraped")
        assert result["metric"] == {"__name__": "profd_job_processes", "job": "profd", "instance": f"127.0.0.1:{port}",
                                    "job_id": "77"}
        assert result["value"][1] == "1"
    finally:
        server.kill()
        server.wait()


# --- idle


def test_idle_is_free(profd):
    """With neither file nor listener the daemon sleeps, after it was asked once, too."""
    metrics(profd)
    quiet(lambda: switches(profd.daemon.pid), 2)


def test_idle_with_a_listener(page):
    profd, port = page
    assert fetch(port).status == 200
    quiet(lambda: switches(profd.daemon.pid), 2)
