"""Installs the Debian package in a clean Debian, unpacks the image, and runs both."""

import hashlib
import json
import os
import re
import shutil

import pytest
from clean_root import PRIVILEGE, ROOT, CleanRoot, debian_base, run
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

BINARY = os.environ.get("BINARY_UNDER_TEST", "BINARY_UNDER_TEST is not set: run `make e2e`")
# The size of the packages does not matter here.
QUICK = {"DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1", "IMAGE_COMPRESSION_LEVEL": "1"}
BASE_URL = "http://127.0.0.1:8080"
NUMBER = "+990123456700"
# Profiles of the tenant.
CLIENT = "/tmp/client"


def package(folder, umask=0o022, **variables):
    run(ROOT / "scripts/package", BINARY, folder, env={**os.environ, **QUICK, **variables}, umask=umask)
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    yield package(folder / "first")
    # pytest would keep them for its next runs.
    shutil.rmtree(folder)


def only_file(packages, pattern):
    [file] = packages.glob(pattern)
    return file


def test_same_binary_gives_same_bytes(packages):
    second = package(packages.parent / "second", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
    contents = lambda folder: {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    assert contents(packages) == contents(second)


def test_checksums_list_every_file(packages):
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=packages)
    names = [line.split("  ")[1] for line in (packages / "SHA256SUMS").read_text().splitlines()]
    assert sorted([*names, "SHA256SUMS"]) == sorted(file.name for file in packages.iterdir())


def test_components_are_a_valid_document(packages):
    text = only_file(packages, "*.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    refs = {document["metadata"]["component"]["bom-ref"], *(component["bom-ref"] for component in document["components"])}
    assert {dependency["ref"] for dependency in document["dependencies"]} == refs
    assert {ref for dependency in document["dependencies"] for ref in dependency["dependsOn"]} <= refs
    names = {component["name"] for component in document["components"]}
    assert {"tokio", "ringtrue-engine", "libsqlite3-sys", "libc6", "ca-certificates"} <= names
    assert not names & {"ringtrue-test-support", "proptest"}, "tests are not components"
    for component in document["components"]:
        assert component["purl"].startswith("pkg:deb/") or component["licenses"], component


def verify(root, secret):
    """Signs in to a running server as a tenant, and verifies a number with a simulated phone."""
    client = {"XDG_CONFIG_HOME": CLIENT}
    login = ["login", "--base-url", BASE_URL, "--client-id", secret["client_id"]]
    root.run("ringtrue", *login, RINGTRUE_CLIENT_SECRET=secret["client_secret"], **client)
    root.run("ringtrue", "projects", "create", "Shop", "--use", **client)
    assert "COMPLETED" in root.run("ringtrue", "verify", NUMBER, "--output", "json", **client)


@pytest.fixture
def debian(tmp_path):
    path = tmp_path / "debian"
    path.mkdir()
    run(*PRIVILEGE, "tar", "--extract", "--file", debian_base(), "--directory", path)
    root = CleanRoot(path)
    yield root
    root.close()
    run(*PRIVILEGE, "rm", "-rf", path)


def service(root, *command, **variables):
    """A command as the user of the service."""
    return root.run("runuser", "-u", "ringtrue", "--", "ringtrue", *command, **variables)


def stat(root, *paths):
    return root.run("stat", "--format=%U:%G %a", *paths).splitlines()


def test_debian_package(packages, debian):
    deb = only_file(packages, "*.deb")
    run(*PRIVILEGE, "cp", deb, debian.path / "ringtrue.deb")
    install = lambda: debian.run("dpkg", "--install", "/ringtrue.deb", DEBIAN_FRONTEND="noninteractive")

    # Installation.
    output = install()
    for command in ["ringtrue migrate ", "ringtrue doctor ", "systemctl enable --now ringtrue "]:
        assert command in output, output
    assert stat(debian, "/etc/ringtrue", "/var/lib/ringtrue") == ["ringtrue:ringtrue 700"] * 2
    files = ["/etc/ringtrue/ringtrue.toml", "/etc/ringtrue/master.key"]
    assert stat(debian, *files) == ["ringtrue:ringtrue 600"] * 2
    read_files = lambda: debian.run("cat", *files)
    initial = read_files()
    assert "ringtrue verify" in debian.run("zcat", "/usr/share/man/man1/ringtrue.1.gz").replace("\\-", " ")
    complete = "source /usr/share/bash-completion/completions/ringtrue && complete -p ringtrue"
    assert "_clap_complete_ringtrue" in debian.run("bash", "-c", complete)

    # The documented commands, then those of the unit.
    service(debian, "migrate")
    doctor = service(debian, "doctor")
    assert "✓ master key" in doctor and "! connectors: none" in doctor
    service(debian, "selftest")
    unit = dict(re.findall(r"^(\w+)=(.*)$", debian.run("cat", "/usr/lib/systemd/system/ringtrue.service"), re.MULTILINE))
    user = f"{unit['User']}:{unit['Group']}"
    start_service = lambda: debian.serve(*unit["ExecStart"].split(), user=user)
    debian.run(*unit["ExecStartPre"].split(), user=user)
    secret = json.loads(service(debian, "workspaces", "create", "Example Bank", "--output", "json"))
    server = start_service()
    verify(debian, secret)
    debian.stop(server)

    # An upgrade keeps configuration, key and data. Maintainer scripts can run twice.
    run(*PRIVILEGE, "sh", "-c", f"echo '# mine' >> {debian.path}/etc/ringtrue/ringtrue.toml")
    changed = read_files()
    assert "systemctl enable" not in install()
    debian.run("/var/lib/dpkg/info/ringtrue.postinst", "configure", "1.0.0")
    assert read_files() == changed != initial
    server = start_service()
    assert "Example Bank" in service(debian, "workspaces", "list")
    debian.run("ringtrue", "verify", NUMBER, XDG_CONFIG_HOME=CLIENT)
    debian.stop(server)

    # With systemd: an upgrade restarts the service, and a removal stops it.
    run(*PRIVILEGE, "mkdir", "-p", debian.path / "run/systemd/system")
    stub = "#!/bin/sh\necho \"$*\" >> /tmp/systemctl.log\n"
    run(*PRIVILEGE, "tee", debian.path / "usr/bin/systemctl", input=stub)
    run(*PRIVILEGE, "chmod", "755", debian.path / "usr/bin/systemctl")
    calls = lambda: debian.run("cat", "/tmp/systemctl.log")
    install()
    assert "daemon-reload" in calls() and "try-restart ringtrue.service" in calls(), calls()
    assert " stop " not in calls() and "disable" not in calls(), calls()

    # A removal keeps everything but the program, and a purge nothing.
    debian.run("dpkg", "--remove", "ringtrue")
    assert "stop ringtrue.service" in calls() and "disable ringtrue.service" in calls(), calls()
    assert read_files() == changed
    debian.run("test", "!", "-e", "/usr/bin/ringtrue")
    assert "systemctl enable" not in install()
    assert read_files() == changed
    debian.run("dpkg", "--purge", "ringtrue")
    for path in ["/etc/ringtrue", "/var/lib/ringtrue", "/usr/bin/ringtrue"]:
        debian.run("test", "!", "-e", path)
    for database in ["passwd", "group"]:
        debian.run("getent", database, "ringtrue", code=2)


@pytest.fixture
def image(packages, tmp_path):
    """The image's configuration, and its root as umoci unpacks it."""
    layout = tmp_path / "layout"
    layout.mkdir()
    run("tar", "--extract", "--file", only_file(packages, "*.oci.tar"), "--directory", layout)
    [manifest] = json.loads((layout / "index.json").read_text())["manifests"]
    tag = manifest["annotations"]["org.opencontainers.image.ref.name"]
    run(*PRIVILEGE, "umoci", "unpack", "--image", f"{layout}:{tag}", tmp_path / "bundle")
    [docker] = json.loads((layout / "manifest.json").read_text())
    assert docker["RepoTags"] == [f"ringtrue:{tag}", "ringtrue:latest"]
    assert all((layout / layer).is_file() for layer in docker["Layers"])
    document = json.loads((layout / docker["Config"]).read_text())
    variables = dict(variable.split("=", 1) for variable in document["config"]["Env"])
    root = CleanRoot(tmp_path / "bundle/rootfs", user=document["config"]["User"], environment=variables)
    yield document["config"], root
    root.close()
    run(*PRIVILEGE, "rm", "-rf", tmp_path / "bundle")


def test_image_has_the_configuration_of_the_dockerfile(image):
    config, _ = image
    dockerfile = (ROOT / "deploy/Dockerfile").read_text().split("FROM gcr.io")[1]
    instruction = lambda name: re.search(rf"^{name} (.*)$", dockerfile, re.MULTILINE)[1]
    assert config["User"] == instruction("USER")
    assert config["WorkingDir"] == instruction("WORKDIR")
    assert config["StopSignal"] == instruction("STOPSIGNAL")
    assert set(config["ExposedPorts"]) == {f"{port}/tcp" for port in instruction("EXPOSE").split()}
    assert config["Entrypoint"] == json.loads(instruction("ENTRYPOINT"))
    assert config["Cmd"] == json.loads(instruction("CMD"))
    assert {variable for variable in config["Env"] if "RINGTRUE" in variable} == set(re.findall(r"RINGTRUE_\w+=\S+", dockerfile))
    check = re.search(r"^HEALTHCHECK --interval=(\d+)s --timeout=(\d+)s --start-period=(\d+)s --retries=(\d+) CMD (.*)$", dockerfile, re.M)
    found = config["Healthcheck"]
    seconds = [str(found[name] // 10**9) for name in ("Interval", "Timeout", "StartPeriod")]
    assert [*seconds, str(found["Retries"]), ["CMD", *json.loads(check[5])]] == [*check.groups()[:4], found["Test"]]


def test_image(image):
    config, root = image
    files = run(*PRIVILEGE, "find", root.path, "-xdev", "-type", "f", "-printf", "%P\\n").splitlines()
    programs = [name for name in files if name.startswith(("bin/", "sbin/", "usr/bin/", "usr/sbin/", "usr/local/"))]
    assert sorted(programs) == ["usr/local/bin/healthcheck", "usr/local/bin/ringtrue"], "no shell, no package manager"
    bundle = (root.path / "etc/ssl/certs/ca-certificates.crt").read_text()
    assert bundle.count("BEGIN CERTIFICATE") > 100
    [binary] = config["Entrypoint"]
    # Any other address than those of a loopback device needs a URL.
    variables = {"RINGTRUE_BASE_URL": BASE_URL}

    root.run(binary, "config", "init", "--output", "json")
    root.run(binary, "migrate", **variables)
    doctor = root.run(binary, "doctor", **variables)
    assert "✓ master key" in doctor
    root.run(binary, "selftest")
    secret = json.loads(root.run(binary, "workspaces", "create", "Example Bank", "--output", "json", **variables))
    server = root.serve(binary, *config["Cmd"], **variables)
    verify(root, secret)
    root.run(*config["Healthcheck"]["Test"][1:])
    root.stop(server)
    root.run(*config["Healthcheck"]["Test"][1:], code=1)
