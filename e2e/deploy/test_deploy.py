"""Compares the files in deploy/ with the binary: metrics, settings and responses."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BINARY = os.environ.get("BINARY_UNDER_TEST", "BINARY_UNDER_TEST is not set: run `make e2e`")
# Names of our metrics.
METRIC = re.compile(r"\b(ringtrue(?:_[a-z0-9]+)+)\b")
# A connector to an unreachable operator still has metrics.
CONNECTORS = """
[connectors.o2]
kind = "smpp"
host = "127.0.0.1"
port = 1
system_id = "ringtrue"
password_env = "O2_PASSWORD"
receivers = ["+447700900001"]
"""
MASTER_KEY = "c2l4dGVlbiBieXRlcyBhbmQgc2l4dGVlbiBtb3JlISE="


def run(*command, **options):
    completed = subprocess.run(command, capture_output=True, text=True, **options)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def environment(**settings):
    return {"PATH": os.environ["PATH"], **settings}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Runs `ringtrue serve`. Yields the ports of the API and metrics listeners."""
    folder = tmp_path_factory.mktemp("serve")
    settings = environment(
        RINGTRUE_MASTER_KEY=MASTER_KEY,
        RINGTRUE_STORE__URL=f"sqlite:{folder}/ringtrue.db",
        RINGTRUE_HTTP__LISTEN="127.0.0.1:0",
        RINGTRUE_METRICS__LISTEN="127.0.0.1:0",
        O2_PASSWORD="1234",
    )
    (folder / "ringtrue.toml").write_text(CONNECTORS)
    run(BINARY, "migrate", env=settings, cwd=folder)
    with subprocess.Popen([BINARY, "serve"], env=settings, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            entry = json.loads(line)
            if entry.get("message") == "ready":
                break
        else:
            pytest.fail("ringtrue exited before it was ready")
        yield {name: int(entry[field].split(":")[1]) for name, field in [("api", "address"), ("metrics", "metrics")]}
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 0


@pytest.fixture(scope="module")
def metrics(node):
    """Labels of each metric by name, as in queries."""
    # The request metrics exist after the first response.
    urllib.request.urlopen(f"http://127.0.0.1:{node['api']}/livez").read()
    text = urllib.request.urlopen(f"http://127.0.0.1:{node['metrics']}/metrics").read().decode()
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels = re.match(r"([a-z0-9_]+)(?:\{(.*?)\})? ", line).groups()
        found.setdefault(name, set()).update(re.findall(r'([a-z_]+)="', labels or ""))
    return found


def rules():
    return [rule for group in yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())["groups"] for rule in group["rules"]]


def dashboard_queries():
    dashboard = json.loads((DEPLOY / "grafana/ringtrue.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def test_prometheus_rules_are_valid_and_pass_their_tests():
    run("promtool", "check", "config", DEPLOY / "prometheus/prometheus.yml")
    run("promtool", "test", "rules", DEPLOY / "prometheus/rules.test.yml")


def test_every_alert_fires_in_a_test():
    tests = yaml.safe_load((DEPLOY / "prometheus/rules.test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test.get("alert_rule_test", []) if case.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in rules() if "alert" in rule}


def test_rules_and_dashboard_use_existing_metrics(metrics):
    dashboard = (DEPLOY / "grafana/ringtrue.json").read_text()
    texts = [rule["expr"] for rule in rules()] + [dashboard] + re.findall(
        r"series: (.*)", (DEPLOY / "prometheus/rules.test.yml").read_text()
    )
    used = {name for text in texts for name in METRIC.findall(text)}
    assert len(used) > 10
    assert used <= set(metrics), f"unknown metrics: {sorted(used - set(metrics))}"


def test_dashboard_shows_every_metric(metrics):
    shown = set(METRIC.findall(" ".join(dashboard_queries())))
    # The dashboard uses the buckets of a histogram.
    expected = {name for name in metrics if not name.endswith(("_sum", "_count"))}
    assert expected <= shown, f"not shown: {sorted(expected - shown)}"


def test_queries_use_existing_labels(metrics):
    prometheus_labels = {"job", "instance"}
    for query in [rule["expr"] for rule in rules()] + dashboard_queries():
        for name, selector in re.findall(r"\b(ringtrue[a-z0-9_]+)\{(.*?)\}", query):
            labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", selector)) - prometheus_labels
            assert labels <= metrics[name], f"{query}: {name} has {metrics[name]}"


def test_dashboard_queries_are_valid(tmp_path):
    variables = {"$__rate_interval": "5m", "$job": "ringtrue", "$instance": ".*"}
    queries = dashboard_queries()
    for variable, value in variables.items():
        queries = [query.replace(variable, value) for query in queries]
    records = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    run("promtool", "check", "rules", file)


def test_systemd_unit_is_valid(tmp_path):
    text = (DEPLOY / "systemd/ringtrue.service").read_text()
    assert "ExecReload=/bin/kill -HUP $MAINPID" in text
    unit = tmp_path / "ringtrue.service"
    unit.write_text(text.replace("/usr/local/bin/ringtrue", BINARY))
    completed = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    # It also verifies units of the machine; ignore those.
    errors = [line for line in completed.stderr.splitlines() if "ringtrue.service" in line]
    assert not errors, errors


def test_systemd_unit_is_hardened():
    # In tenths: what remains is the network, which the service needs. Later versions of systemd rate more settings.
    run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15", DEPLOY / "systemd/ringtrue.service")


def shell_blocks(path):
    """The blocks of shell commands of a page."""
    blocks = re.findall(r"^( *)```sh\n(.*?)^ *```$", path.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in blocks]


@pytest.mark.parametrize("page", ["docs/configuration.md", "docs/backup.md", "deploy/README.md"])
def test_documented_setup_creates_the_user_of_the_service(page):
    users = [line for block in shell_blocks(ROOT / page) for line in block.splitlines() if line.startswith("useradd ")]
    unit = (DEPLOY / "systemd/ringtrue.service").read_text()
    assert len(users) == 1 and f"User={users[0].split()[-1]}\n" in unit
    [block] = [block for block in shell_blocks(ROOT / page) if users[0] in block]
    assert "ringtrue" not in block.split(users[0])[0].replace("/ringtrue", "").replace("ringtrue binary", "")
    lines = [line for line in block.splitlines() if line.startswith(("useradd ", "install -d ", "(umask", "chown "))]
    # In copies of the directories that the commands change, which only these processes see.
    copies = "mount -t tmpfs tmpfs /mnt; cp -a /etc /mnt; mount --bind /mnt/etc /etc; mount -t tmpfs tmpfs /var/lib"
    shown = "stat --format '%U %a' /etc/ringtrue /var/lib/ringtrue; runuser -u ringtrue -- ls /etc/ringtrue"
    privilege = [] if os.getuid() == 0 else ["sudo"]
    script = "\n".join(["set -eu", copies, *lines, shown])
    assert run(*privilege, "unshare", "--mount", "sh", "-c", script).split("\n")[:2] == ["ringtrue 700"] * 2


def test_binary_accepts_settings_of_the_unit(tmp_path):
    text = (DEPLOY / "systemd/ringtrue.service").read_text()
    settings = dict(line.split("=", 1) for line in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
    (tmp_path / "master.key").write_text(MASTER_KEY + "\n")
    (tmp_path / "master.key").chmod(0o600)
    settings = {name: value.replace("/etc/ringtrue", str(tmp_path)) for name, value in settings.items()}
    settings["RINGTRUE_STORE__URL"] = f"sqlite:{tmp_path}/ringtrue.db"
    run(BINARY, "migrate", env=environment(**settings), cwd=tmp_path)
    # This command needs the master key.
    run(BINARY, "workspace", "create", "Example Bank", env=environment(**settings), cwd=tmp_path)


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def substitute(text, values):
    """Expands `${NAME:-default}` and `${NAME:?message}` as compose does."""
    expand = lambda found: values.get(found[1]) or (found[3] if found[2] == ":-" else pytest.fail(f"{found[1]} is not set"))
    return re.sub(r"\$\{([A-Z_]+)(:[-?])([^}]*)\}", expand, text)


def test_binary_accepts_settings_of_the_image_and_compose(tmp_path):
    example = (DEPLOY / "compose.env.example").read_text()
    values = dict(line.split("=", 1) for line in example.splitlines() if line and not line.startswith("#"))
    for name, text in [("master_key", MASTER_KEY), ("postgres_password", "1234")]:
        (tmp_path / name).write_text(text + "\n")
        (tmp_path / name).chmod(0o600)
    image = dict(re.findall(r"(RINGTRUE_[A-Z_]+)=(\S+)", (DEPLOY / "Dockerfile").read_text()))
    assert image
    for service in ("migrate", "ringtrue"):
        settings = compose()["services"][service]["environment"]
        settings = {**image, **{name: substitute(value, values) for name, value in settings.items()}}
        assert json.loads(settings["RINGTRUE_HTTP__TRUSTED_PROXIES"]) == [], "no proxy is trusted by default"
        settings = {name: value.replace("/run/secrets", str(tmp_path)) for name, value in settings.items()}
        output = run(BINARY, "config", "check", env=environment(**settings), cwd=tmp_path)
        assert "store.url" in output and "1234" not in output


def test_compose_reads_secrets_from_files_only():
    document = compose()
    for name, service in document["services"].items():
        used = set(re.findall(r"/run/secrets/([a-z_]+)", json.dumps(service.get("environment", {}))))
        assert used == set(service.get("secrets", [])), name
        for setting, value in service.get("environment", {}).items():
            secret = re.search("PASSWORD|SECRET|KEY", setting)
            assert not secret or value.startswith("/run/secrets/"), setting
            assert not re.search(r"://[^/]*:[^/]*@", value), f"{setting} holds a password"
    for name, secret in document["secrets"].items():
        assert secret["file"].startswith("./secrets/"), name
    example = (DEPLOY / "compose.env.example").read_text()
    settings = [line.split("=")[0] for line in example.splitlines() if line and not line.startswith("#")]
    assert not any(re.search("PASSWORD|SECRET|KEY", name) for name in settings), settings


def test_compose_references_exist():
    document = compose()
    for name, service in document["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith("./") else source in document["volumes"], volume
        assert set(service["networks"]) <= set(document["networks"])
        assert set(service.get("depends_on", {})) <= set(document["services"])
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file(), name
    assert not document["services"]["postgres"].get("ports"), "the database port must not be published"


def test_image_sources_exist_and_user_is_not_root():
    text = (DEPLOY / "Dockerfile").read_text()
    for source in re.findall(r"^COPY ([^-\s]\S*) \S+$", text, re.MULTILINE):
        assert (ROOT / source).exists(), source
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for path in [line[1:] for line in ignored if line.startswith("!")]:
        assert (ROOT / path).exists(), path
    assert re.search(r"^USER [1-9][0-9]*:[1-9][0-9]*$", text, re.MULTILINE)
    channel = re.search(r'channel = "(\d+\.\d+)\.\d+"', (ROOT / "rust-toolchain.toml").read_text())[1]
    assert f"FROM rust:{channel}-bookworm" in text, "the image must build with the Rust version of rust-toolchain.toml"


def test_health_check_detects_a_running_node(node, tmp_path):
    # With the command of the Dockerfile.
    command = re.search(r"rustc .* -o /healthcheck deploy/docker/healthcheck.rs", (DEPLOY / "Dockerfile").read_text())[0]
    run(*command.replace("/healthcheck ", f"{tmp_path}/healthcheck ").split(" "), cwd=ROOT)

    def check(port):
        settings = environment(HEALTHCHECK_PORT=str(port))
        return subprocess.run([tmp_path / "healthcheck"], env=settings, capture_output=True).returncode

    assert check(node["metrics"]) == 0
    # Nothing listens on port 1.
    assert check(1) != 0
