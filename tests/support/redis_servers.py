"""Private redis-server (or valkey-server) processes: started on a free port, hurt on purpose, ended by id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis

#: A loaded machine may take its time to start a process.
_TIMEOUT_S = 20.0

#: The timeout of a store that must answer: on a busy machine a slow answer must not count as an outage.
PATIENT_S = 10.0


def binary() -> str:
    """The server's command."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    assert found is not None, "no redis-server or valkey-server on PATH"
    return found


def free_port() -> int:
    """A port on which nothing listens at the moment. A cluster node also takes the port 10,000 above it."""
    while True:
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            try:
                if port < 55_000:
                    bus.bind(("127.0.0.1", port + 10_000))
                    return port
            except OSError:
                continue


class EndedAtStart(Exception):
    """The server ended before it answered, as it does when its port is taken."""


class Server:
    """One server, in a directory of its own, without persistence. A context manager; `stop` ends it by id."""

    def __init__(self, *options: str, cluster: bool = False) -> None:
        self._options = options
        self._cluster = cluster
        self._directory = Path(tempfile.mkdtemp(prefix="stormproof-redis-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start_on_a_free_port()
        except BaseException:
            self.stop()
            raise

    def _start_on_a_free_port(self) -> None:
        """Between the choice of a port and the server's start another process may take the port."""
        for _ in range(5):
            self.port = free_port()
            try:
                return self.start()
            except EndedAtStart:
                self.kill()
        raise EndedAtStart(f"five times in a row, the last on port {self.port}")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, empty, on its port."""
        assert self._process is None
        self._process = subprocess.Popen(
            self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait_until_it_answers()

    def _command(self) -> list[str]:
        command = [binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self._directory), "--repl-diskless-sync-delay", "0"]
        if self._cluster:
            command += ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
        return [*command, *self._options]

    def _wait_until_it_answers(self) -> None:
        import redis

        assert self._process is not None
        end = time.monotonic() + _TIMEOUT_S
        while True:
            if self._process.poll() is not None:
                raise EndedAtStart(f"on port {self.port}")
            try:
                with self.client() as client:
                    # A server of another process may answer on the same port.
                    if client.info("server")["process_id"] == self.pid:
                        return
            except (redis.ConnectionError, redis.TimeoutError):
                pass
            assert time.monotonic() < end, "the server does not come up"
            time.sleep(0.01)

    def client(self, **more: Any) -> redis.Redis:
        """A plain client for looking and meddling; close it."""
        import redis

        return redis.Redis(port=self.port, socket_timeout=5, **more)

    def ask(self, *command: str | int) -> Any:
        """The answer to one command."""
        with self.client(decode_responses=True) as client:
            return client.execute_command(*command)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop it in its tracks: connections stay, answers do not come."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def restart_empty(self) -> None:
        self.kill()
        self.start()

    def make_read_only(self, master: Server) -> None:
        """Let it be the replica of ``master``."""
        self.ask("REPLICAOF", "127.0.0.1", master.port)

    def make_writable(self) -> None:
        self.ask("REPLICAOF", "NO", "ONE")

    def keys_without_ttl(self) -> list[str]:
        """Every key that would stay for ever."""
        with self.client(decode_responses=True) as client:
            return [key for key in client.scan_iter(count=1000) if client.pttl(key) == -1]

    def stop(self) -> None:
        if self._process is not None:
            # A stopped process does not die of anything milder either.
            self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class Cluster:
    """Three primaries that share the slots."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        try:
            self._gather()
        except BaseException:
            self.stop()
            raise

    def _gather(self) -> None:
        for _ in range(3):
            self.servers.append(Server(cluster=True))
        bounds = [(0, 5460), (5461, 10922), (10923, 16383)]
        for server, (first, last) in zip(self.servers, bounds, strict=True):
            server.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
        for server in self.servers[1:]:
            self.servers[0].ask("CLUSTER", "MEET", "127.0.0.1", server.port)
        self._wait_until_it_is_one()

    def _wait_until_it_is_one(self) -> None:
        end = time.monotonic() + _TIMEOUT_S
        while True:
            states = [str(server.ask("CLUSTER", "INFO")) for server in self.servers]
            if all("cluster_state:ok" in info and "cluster_known_nodes:3" in info for info in states):
                return
            assert time.monotonic() < end, f"the cluster does not come up: {states}"
            time.sleep(0.05)

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.servers[0].port}"

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


class Sentinel(Server):
    """A Sentinel that watches ``master`` under the name mymaster."""

    def __init__(self, master: Server) -> None:
        self._master = master
        super().__init__()

    def _command(self) -> list[str]:
        file = self._directory / "sentinel.conf"
        file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self._directory}\n"
            f"sentinel monitor mymaster 127.0.0.1 {self._master.port} 1\n"
        )
        return [binary(), str(file), "--sentinel"]

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.port}/mymaster/0"
