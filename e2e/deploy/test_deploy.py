"""What is in deploy/ fits the binary: its metrics, its settings, its answers."""

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BINARY = os.environ.get("BINARY_UNDER_TEST", "BINARY_UNDER_TEST is not set: run `make e2e`")
# Metrics of ours by name, and figures that the rules make of them.
METRIC = re.compile(r"\b(ringtrue(?:_[a-z0-9]+)+)\b")
# An operator that is not there: its metrics are.
OPERATORS = """
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
    ended = subprocess.run(command, capture_output=True, text=True, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def environment(**settings):
    return {"PATH": os.environ["PATH"], **settings}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A node by `serve`. Gives the ports of the API and of the metrics."""
    folder = tmp_path_factory.mktemp("serve")
    settings = environment(
        RINGTRUE_MASTER_KEY=MASTER_KEY,
        RINGTRUE_STORE__URL=f"sqlite:{folder}/ringtrue.db",
        RINGTRUE_HTTP__LISTEN="127.0.0.1:0",
        RINGTRUE_METRICS__LISTEN="127.0.0.1:0",
        O2_PASSWORD="1234",
    )
    (folder / "ringtrue.toml").write_text(OPERATORS)
    run(BINARY, "migrate", env=settings, cwd=folder)
    with subprocess.Popen([BINARY, "serve"], env=settings, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            said = json.loads(line)
            if said.get("message") == "ready":
                break
        else:
            pytest.fail("ringtrue ended before it was ready")
        yield {name: int(said[field].split(":")[1]) for name, field in [("api", "address"), ("metrics", "metrics")]}
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 0


@pytest.fixture(scope="module")
def metrics(node):
    """By name, as a query would have it: the labels of its series."""
    # Answers are counted from the first one on.
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


def test_prometheus_takes_the_rules_and_they_do_what_their_tests_say():
    run("promtool", "check", "config", DEPLOY / "prometheus/prometheus.yml")
    run("promtool", "test", "rules", DEPLOY / "prometheus/rules.test.yml")


def test_every_alert_has_a_test_in_which_it_fires():
    tests = yaml.safe_load((DEPLOY / "prometheus/rules.test.yml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test.get("alert_rule_test", []) if case.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in rules() if "alert" in rule}


def test_every_metric_that_is_named_is_one_of_a_running_node(metrics):
    dashboard = (DEPLOY / "grafana/ringtrue.json").read_text()
    texts = [rule["expr"] for rule in rules()] + [dashboard] + re.findall(
        r"series: (.*)", (DEPLOY / "prometheus/rules.test.yml").read_text()
    )
    named = {name for text in texts for name in METRIC.findall(text)}
    assert len(named) > 10
    assert named <= set(metrics), f"not there: {sorted(named - set(metrics))}"


def test_every_metric_of_a_running_node_is_on_the_dashboard(metrics):
    shown = set(METRIC.findall(" ".join(dashboard_queries())))
    # A histogram is shown by its buckets.
    wanted = {name for name in metrics if not name.endswith(("_sum", "_count"))}
    assert wanted <= shown, f"not shown: {sorted(wanted - shown)}"


def test_labels_in_queries_are_those_of_the_metric(metrics):
    of_prometheus = {"job", "instance"}
    for query in [rule["expr"] for rule in rules()] + dashboard_queries():
        for name, selector in re.findall(r"\b(ringtrue[a-z0-9_]+)\{(.*?)\}", query):
            labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", selector)) - of_prometheus
            assert labels <= metrics[name], f"{query}: {name} has {metrics[name]}"


def test_prometheus_understands_every_query_of_the_dashboard(tmp_path):
    fill = {"$__rate_interval": "5m", "$job": "ringtrue", "$instance": ".*"}
    queries = dashboard_queries()
    for variable, value in fill.items():
        queries = [query.replace(variable, value) for query in queries]
    made = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": made}]}))
    run("promtool", "check", "rules", file)


def test_systemd_takes_the_unit(tmp_path):
    text = (DEPLOY / "systemd/ringtrue.service").read_text()
    assert "ExecReload=/bin/kill -HUP $MAINPID" in text
    if shutil.which("systemd-analyze"):
        unit = tmp_path / "ringtrue.service"
        unit.write_text(text.replace("/usr/local/bin/ringtrue", BINARY))
        ended = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        # It looks at units of the machine too: only what it says of this one counts.
        said = [line for line in ended.stderr.splitlines() if "ringtrue.service" in line]
        assert not said, said


def test_the_binary_takes_the_settings_of_the_unit(tmp_path):
    text = (DEPLOY / "systemd/ringtrue.service").read_text()
    settings = dict(line.split("=", 1) for line in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
    for name, source in re.findall(r"^LoadCredential=([^:]+):(.+)$", text, re.MULTILINE):
        assert source.startswith("/etc/ringtrue/")
        (tmp_path / name).write_text(MASTER_KEY + "\n")
        (tmp_path / name).chmod(0o440 if os.getuid() == 0 else 0o400)
    settings = {name: value.replace("%d", str(tmp_path)) for name, value in settings.items()}
    settings["RINGTRUE_STORE__URL"] = f"sqlite:{tmp_path}/ringtrue.db"
    run(BINARY, "migrate", env=environment(**settings), cwd=tmp_path)
    # This one needs the key.
    run(BINARY, "workspace", "create", "Example Bank", env=environment(**settings), cwd=tmp_path)


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def substituted(text, values):
    """`${NAME:-otherwise}` and `${NAME:?complaint}`, as compose has them."""
    put = lambda found: values.get(found[1]) or (found[3] if found[2] == ":-" else pytest.fail(f"{found[1]} is not set"))
    return re.sub(r"\$\{([A-Z_]+)(:[-?])([^}]*)\}", put, text)


def test_the_binary_takes_the_settings_of_the_image_and_of_compose(tmp_path):
    example = (DEPLOY / "compose.env.example").read_text()
    values = dict(line.split("=", 1) for line in example.splitlines() if line and not line.startswith("#"))
    for name, text in [("master_key", MASTER_KEY), ("postgres_password", "1234")]:
        (tmp_path / name).write_text(text + "\n")
        (tmp_path / name).chmod(0o600)
    image = dict(re.findall(r"(RINGTRUE_[A-Z_]+)=(\S+)", (DEPLOY / "Dockerfile").read_text()))
    assert image
    for service in ("migrate", "ringtrue"):
        settings = compose()["services"][service]["environment"]
        settings = {**image, **{name: substituted(value, values) for name, value in settings.items()}}
        assert json.loads(settings["RINGTRUE_HTTP__TRUSTED_PROXIES"]) == [], "nobody is trusted unless it is asked for"
        settings = {name: value.replace("/run/secrets", str(tmp_path)) for name, value in settings.items()}
        said = run(BINARY, "config", "check", env=environment(**settings), cwd=tmp_path)
        assert "store.url" in said and "1234" not in said


def test_compose_takes_secrets_from_files_alone():
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


def test_compose_names_what_is_there():
    document = compose()
    for name, service in document["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith("./") else source in document["volumes"], volume
        assert set(service["networks"]) <= set(document["networks"])
        assert set(service.get("depends_on", {})) <= set(document["services"])
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file(), name
    assert not document["services"]["postgres"].get("ports"), "the database is for nobody outside"


def test_the_image_is_made_of_what_is_there_and_does_not_run_as_root():
    text = (DEPLOY / "Dockerfile").read_text()
    for source in re.findall(r"^COPY ([^-\s]\S*) \S+$", text, re.MULTILINE):
        assert (ROOT / source).exists(), source
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for path in [line[1:] for line in ignored if line.startswith("!")]:
        assert (ROOT / path).exists(), path
    assert re.search(r"^USER [1-9][0-9]*:[1-9][0-9]*$", text, re.MULTILINE)
    channel = re.search(r'channel = "(\d+\.\d+)\.\d+"', (ROOT / "rust-toolchain.toml").read_text())[1]
    assert f"FROM rust:{channel}-bookworm" in text, "the image builds with another Rust than we do"


def test_the_health_check_tells_a_node_that_is_there_from_one_that_is_not(node):
    def check(port):
        settings = environment(HEALTHCHECK_PORT=str(port))
        return subprocess.run([DEPLOY / "docker/healthcheck"], env=settings, capture_output=True).returncode

    assert check(node["metrics"]) == 0
    # Port 1 is nobody's.
    assert check(1) != 0
