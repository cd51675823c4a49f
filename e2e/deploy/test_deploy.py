"""Compares the files in deploy/ with the binary: metrics, settings and responses."""

import http.server
import json
import os
import re
import signal
import subprocess
import threading
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
    unit.write_text(re.sub(r"^(ExecStart(?:Pre)?)=ringtrue ", rf"\1={BINARY} ", text, flags=re.MULTILINE))
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


def test_documented_setup_without_the_package():
    [block] = [block for block in shell_blocks(ROOT / "docs/configuration.md") if "useradd " in block]
    commands = [line for line in block.splitlines() if not line.startswith("systemctl ")]
    unit = (DEPLOY / "systemd/ringtrue.service").read_text()
    [user] = re.findall(r"^useradd .* (\w+)$", block, re.MULTILINE)
    assert f"User={user}\n" in unit and f"Group={user}\n" in unit
    # In copies of the directories that the commands change, which only these processes see.
    copies = ["mount -t tmpfs tmpfs /mnt", "cp -a /etc /mnt", "mount --bind /mnt/etc /etc", "rm -rf /etc/ringtrue"]
    copies += [f"mount -t tmpfs tmpfs {folder}" for folder in ("/var/lib", "/usr/local/bin")]
    commands = [line.replace("target/shipped/ringtrue", BINARY) for line in commands]
    shown = [
        "runuser -u ringtrue -- ringtrue config check > /dev/null",
        "runuser -u ringtrue -- ringtrue migrate > /dev/null",
        "stat --format '%U %a' /etc/ringtrue /var/lib/ringtrue /etc/ringtrue/master.key /etc/ringtrue/ringtrue.toml",
    ]
    privilege = [] if os.getuid() == 0 else ["sudo"]
    script = "\n".join(["set -eu", *copies, *commands, *shown])
    output = run(*privilege, "unshare", "--mount", "sh", "-c", script, cwd=ROOT)
    assert output.splitlines()[-4:] == ["ringtrue 700", "ringtrue 700", "ringtrue 600", "ringtrue 600"]


def test_nginx_passes_server_sent_events(tmp_path):
    """With the documented configuration, in front of a server that sends one event and keeps the response open."""
    [block] = re.findall(r"```nginx\n(.*?)```", (ROOT / "docs/tls-and-proxies.md").read_text(), re.DOTALL)
    forwarded, done = [], threading.Event()

    class Upstream(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            forwarded.append(self.headers["X-Forwarded-For"])
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"data: first\n\n")
            done.wait(timeout=60)

    certificate = ["-subj", "/CN=verify.example.com", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "chain.pem"]
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *certificate)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        block = block.replace("/etc/ssl/private/verify.example.com", str(tmp_path)).replace("443 ssl", f"unix:{tmp_path}/socket ssl")
        block = block.replace("127.0.0.1:8080", f"127.0.0.1:{upstream.server_port}")
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; events {{}} http {{ access_log off; client_body_temp_path {tmp_path}; {block} }}"
        )
        with subprocess.Popen(["/usr/sbin/nginx", "-e", "stderr", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]) as nginx:
            curl = ["curl", "--silent", "--no-buffer", "--insecure", "--unix-socket", tmp_path / "socket"]
            curl += ["--retry", "20", "--retry-all-errors", "--retry-delay", "1", "https://verify.example.com/events"]
            with subprocess.Popen(curl, stdout=subprocess.PIPE, text=True) as client:
                # The response has not ended.
                assert client.stdout.readline() == "data: first\n"
                done.set()
            nginx.terminate()
        upstream.shutdown()
    assert forwarded == ["unix:"]


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
