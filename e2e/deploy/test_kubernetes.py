"""Validates the manifests in deploy/kubernetes against the schemas of the Kubernetes API, and compares them with the binary."""

import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
OVERLAYS = ["sqlite", "postgres"]
BINARY = os.environ.get("BINARY_UNDER_TEST", "BINARY_UNDER_TEST is not set: run `make e2e`")
MASTER_KEY = "c2l4dGVlbiBieXRlcyBhbmQgc2l4dGVlbiBtb3JlISE="
# The oldest version that the manifests support, and the newest with schemas.
VERSIONS = ["1.30", kubernetes_validate.latest_version()]

every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def documents(file):
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def merge(base, patch):
    """Merges a strategic merge patch: objects by key, lists of named objects by name, `null` removes."""
    if isinstance(base, dict) and isinstance(patch, dict):
        merged = {name: value for name, value in base.items() if name not in patch}
        merged.update({name: merge(base.get(name), value) for name, value in patch.items() if value is not None})
        return merged
    is_named = lambda items: isinstance(items, list) and all(isinstance(item, dict) and "name" in item for item in items)
    if is_named(base) and is_named(patch) and base:
        patches = {item["name"]: item for item in patch}
        merged = [merge(item, patches.pop(item["name"], {})) for item in base]
        return merged + list(patches.values())
    return copy.deepcopy(patch)


def render(overlay):
    """Resources of an overlay, without the transformations of kustomize other than patches."""
    folder = KUBERNETES / "overlays" / overlay
    kustomization = documents(folder / "kustomization.yaml")[0]
    resources = []
    for name in kustomization["resources"]:
        path = folder / name
        files = [path]
        if path.is_dir():
            files = [path / file for file in documents(path / "kustomization.yaml")[0]["resources"]]
        resources += [document for file in files for document in documents(file)]
    for patch in kustomization["patches"]:
        for change in documents(folder / patch["path"]):
            kind, name = change["kind"], change["metadata"]["name"]
            (position,) = [
                index for index, found in enumerate(resources) if (found["kind"], found["metadata"]["name"]) == (kind, name)
            ]
            resources[position] = merge(resources[position], change)
    return resources


def resource(overlay, kind, name="ringtrue"):
    (found,) = [found for found in render(overlay) if (found["kind"], found["metadata"]["name"]) == (kind, name)]
    return found


def pod(overlay):
    return resource(overlay, "Deployment")["spec"]["template"]["spec"]


def containers(overlay):
    return pod(overlay)["initContainers"] + pod(overlay)["containers"]


@every_overlay
@pytest.mark.parametrize("version", VERSIONS)
def test_resources_match_the_schemas(overlay, version):
    resources = render(overlay)
    assert len(resources) > 7
    for found in resources:
        kubernetes_validate.validate(found, version, strict=True)


def test_validation_detects_a_misspelt_member():
    deployment = resource("sqlite", "Deployment")
    deployment["spec"]["template"]["spec"]["enableServicelinks"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


@every_overlay
def test_kustomize_renders_the_same_pods(overlay):
    version = {}
    if shutil.which("kubectl"):
        completed = subprocess.run(["kubectl", "version", "--client", "--output=json"], capture_output=True, text=True)
        version = json.loads(completed.stdout)
    if "kustomizeVersion" not in version:
        pytest.skip("kubectl 1.24 or later is not installed")
    command = ["kubectl", "kustomize", KUBERNETES / "overlays" / overlay]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    rendered = list(yaml.safe_load_all(completed.stdout))
    for found in rendered:
        kubernetes_validate.validate(found, VERSIONS[-1], strict=True)
    (config,) = [found["metadata"]["name"] for found in rendered if found["kind"] == "ConfigMap"]
    (deployment,) = [found for found in rendered if found["kind"] == "Deployment"]
    text = json.dumps(deployment["spec"]["template"]["spec"])
    text = text.replace(config, "ringtrue").replace("registry.example.com/ringtrue:1.0.0", "ringtrue")
    actual, expected = json.loads(text), pod(overlay)
    by_name = lambda items: sorted(items, key=lambda item: item["name"])
    for spec in (actual, expected):
        spec["volumes"] = by_name(spec["volumes"])
        for container in spec["containers"] + spec["initContainers"]:
            container["volumeMounts"] = by_name(container["volumeMounts"])
    assert actual == expected


@every_overlay
def test_selectors_match_the_pods(overlay):
    labels = resource(overlay, "Deployment")["spec"]["template"]["metadata"]["labels"]
    for found in render(overlay):
        spec = found.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if selector:
            assert selector.get("matchLabels", selector).items() <= labels.items(), found["kind"]


@every_overlay
def test_pods_satisfy_the_restricted_profile(overlay):
    context = pod(overlay)["securityContext"]
    assert context["runAsNonRoot"] and context["seccompProfile"] == {"type": "RuntimeDefault"}
    user = re.search(r"^USER (\d+):(\d+)$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user[1]), int(user[2]))
    for container in containers(overlay):
        restrictions = container["securityContext"]
        assert restrictions["readOnlyRootFilesystem"] and not restrictions["allowPrivilegeEscalation"]
        assert restrictions["capabilities"] == {"drop": ["ALL"]}
    assert pod(overlay)["automountServiceAccountToken"] is False


def test_probes_use_the_ports_of_the_image():
    image = (ROOT / "deploy/Dockerfile").read_text()
    (container,) = pod("postgres")["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["http"] == int(re.search(r"RINGTRUE_HTTP__LISTEN=0\.0\.0\.0:(\d+)", image)[1])
    assert ports["metrics"] == int(re.search(r"RINGTRUE_METRICS__LISTEN=0\.0\.0\.0:(\d+)", image)[1])
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}


def test_grace_period_covers_the_shutdown():
    defaults = subprocess.run([BINARY, "config", "default"], capture_output=True, text=True, check=True).stdout
    shutdown = int(re.search(r'shutdown_grace = "(\d+)s"', defaults)[1])
    (container,) = pod("postgres")["containers"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod("postgres")["terminationGracePeriodSeconds"] > pause + shutdown


def settings(overlay):
    """Variables of the container, with the Secret that the README creates."""
    image = dict(re.findall(r"(RINGTRUE_[A-Z_]+)=(\S+)", (ROOT / "deploy/Dockerfile").read_text()))
    readme = (KUBERNETES / "README.md").read_text()
    secret = dict(re.findall(r"--from-literal=(RINGTRUE_[A-Z_]+)=['\"]([^'\"]+)['\"]", readme))
    assert set(secret) == {"RINGTRUE_MASTER_KEY", "RINGTRUE_STORE__URL"}
    (container,) = pod(overlay)["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "ringtrue"}}]
    own = {variable["name"]: variable["value"] for variable in container.get("env", [])}
    return {"PATH": os.environ["PATH"], **image, **secret, "RINGTRUE_MASTER_KEY": MASTER_KEY, **own}


def check_config(variables):
    file = KUBERNETES / "base/ringtrue.toml"
    command = [BINARY, "config", "check", "--config", file]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


@every_overlay
def test_binary_accepts_the_settings(overlay):
    completed = check_config(settings(overlay))
    assert completed.returncode == 0, completed.stderr
    assert "PASSWORD" not in completed.stdout
    # SQLite is the default, which is not listed.
    assert ("postgres" in completed.stdout) == (overlay == "postgres")


@every_overlay
def test_variables_of_services_are_not_set(overlay):
    # Kubernetes would set this one for the Service.
    completed = check_config({**settings(overlay), "RINGTRUE_PORT": "tcp://10.0.0.1:80"})
    assert completed.returncode == 3
    assert pod(overlay)["enableServiceLinks"] is False


def test_host_is_the_same_everywhere():
    host = re.search(r'base_url = "https://([^"]+)"', (KUBERNETES / "base/ringtrue.toml").read_text())[1]
    spec = resource("postgres", "Ingress")["spec"]
    assert spec["tls"][0]["hosts"] == [host] and spec["rules"][0]["host"] == host


def test_sqlite_has_one_node():
    spec = resource("sqlite", "Deployment")["spec"]
    assert spec["replicas"] == 1 and spec["strategy"] == {"type": "Recreate"}
    assert resource("sqlite", "PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteOncePod"]
    for container in containers("sqlite"):
        (path,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "data"]
        assert container["env"][0]["value"] == f"sqlite:{path}/ringtrue.db"


def test_disruption_budget_leaves_nodes():
    replicas = resource("postgres", "Deployment")["spec"]["replicas"]
    assert resource("postgres", "PodDisruptionBudget")["spec"]["maxUnavailable"] < replicas
