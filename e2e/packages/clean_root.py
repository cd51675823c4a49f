"""Directories that are the root of other processes, with a network of their own: a loopback device, and nothing else."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "target/packages"
# What the Debian package depends on, and Debian's essential packages.
BASE_PACKAGES = "ca-certificates,libgcc-s1,passwd"
PRIVILEGE = [] if os.getuid() == 0 else ["sudo"]
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"}


def run(*command, **options):
    completed = subprocess.run(command, capture_output=True, text=True, **options)
    assert completed.returncode == 0, f"{command}\n{completed.stdout}{completed.stderr}"
    return completed.stdout


def debian_base():
    """A tar file with a minimal Debian, made once by mmdebstrap from the package sources of this machine."""
    codename = run("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME").strip()
    targets = ["Identifier: Packages", "Label: Debian", f"Codename: {codename}", "Component: main"]
    mirror = run("apt-get", "indextargets", "--format", "$(REPO_URI)", *targets).split()[0]
    key = hashlib.sha256(f"{codename} {BASE_PACKAGES}".encode()).hexdigest()[:12]
    base = CACHE / f"debian-{key}.tar"
    if not base.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = base.with_suffix(".unfinished.tar")
        options = ["--variant=essential", f"--include={BASE_PACKAGES}", "--quiet"]
        run(*PRIVILEGE, "mmdebstrap", *options, codename, unfinished, f"deb {mirror} {codename} main")
        unfinished.rename(base)
    return base


class CleanRoot:
    """Runs commands in a directory as their root. Mounts and network exist until it is closed."""

    def __init__(self, path, user=None, environment=ENVIRONMENT):
        self.path, self.user, self.environment = path, user, environment
        script = f"""
            set -e
            ip link set lo up
            mkdir -p {path}/proc {path}/dev
            mount -t proc proc {path}/proc
            mount --bind /dev {path}/dev
            echo $$
            exec sleep infinity
        """
        command = [*PRIVILEGE, "unshare", "--mount", "--net", "sh", "-c", script]
        environment = {**os.environ, "PATH": ENVIRONMENT["PATH"]}
        self.holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.pid = self.holder.stdout.readline().strip()
        assert self.pid, "no namespace"

    def command(self, *command, user=None, **variables):
        enter = [*PRIVILEGE, "nsenter", f"--target={self.pid}", "--mount", "--net"]
        user = user or self.user
        change = ["chroot", *([f"--userspec={user}"] if user else []), str(self.path)]
        settings = [f"{name}={value}" for name, value in {**self.environment, **variables}.items()]
        # The outer `env` clears the environment; the loader of the inner program has its root.
        return [*enter, "/usr/bin/env", "--ignore-environment", *settings, "/usr/sbin/" + change[0], *change[1:], *command]

    def run(self, *command, user=None, code=0, **variables):
        completed = subprocess.run(self.command(*command, user=user, **variables), capture_output=True, text=True)
        assert completed.returncode == code, f"{command}\n{completed.stdout}{completed.stderr}"
        return completed.stdout

    def serve(self, *command, user=None, **variables):
        """Starts a server, and waits until it is ready."""
        server = subprocess.Popen(self.command(*command, user=user, **variables), stdout=subprocess.PIPE, text=True)
        lines = []
        for line in server.stdout:
            lines.append(line)
            if json.loads(line).get("message") == "ready":
                return server
        pytest.fail("the server exited before it was ready:\n" + "".join(lines))

    def stop(self, server):
        if PRIVILEGE:
            # sudo passes the signal on.
            run("sudo", "kill", str(server.pid))
        else:
            server.terminate()
        server.stdout.read()
        assert server.wait() == 0

    def close(self):
        run(*PRIVILEGE, "kill", self.pid)
        self.holder.wait()
        self.holder.stdout.close()
