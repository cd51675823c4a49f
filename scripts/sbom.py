"""Writes the components of the binary as a CycloneDX document (https://cyclonedx.org/docs/1.6/json/).

    python3 scripts/sbom.py FILE

The crates and their relations come from Cargo, the checksums from Cargo.lock, and the versions of the C library and
the root certificates, which the container image contains, from Debian's package manager.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib
import uuid

ROOT = "ringtrue-server"
NORMAL, NORMAL_AND_BUILD = {None}, {None, "build"}
# Scope of the components that the binary does not contain, such as compilers of C code.
BUILD_ONLY = "excluded"
DEBIAN_PACKAGES = ["ca-certificates", "libc6", "libgcc-s1"]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def direct(node: dict, kinds: set) -> set[str]:
    """Ids of the direct dependencies of these kinds. Cargo's name for normal dependencies is null."""
    return {
        dependency["pkg"]
        for dependency in node["deps"]
        if any(kind["kind"] in kinds for kind in dependency["dep_kinds"])
    }


def reachable(nodes: dict, root: str, kinds: set) -> set[str]:
    """Ids of `root` and of all that it needs by dependencies of these kinds."""
    found, waiting = set(), [root]
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += direct(nodes[package], kinds)
    return found


def crate_purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def crate_component(package: dict, scope: str, checksums: dict) -> dict:
    purl = crate_purl(package)
    component = {"type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"], "scope": scope}
    if package["license"]:
        # `/` is the old form of `OR`.
        component["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if checksum := checksums.get((package["name"], package["version"])):
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return {**component, "purl": purl}


def debian_component(name: str) -> dict:
    version, architecture = run("dpkg-query", "--show", "--showformat=${Version} ${Architecture}", name).split()
    purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch={architecture}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required", "purl": purl}


def main(output: str) -> None:
    target = run("rustc", "--print", "host-tuple").strip()
    metadata = json.loads(run("cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"))
    lock = tomllib.loads(pathlib.Path("Cargo.lock").read_text())
    checksums = {(crate["name"], crate["version"]): crate.get("checksum") for crate in lock["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    [root] = [package["id"] for package in packages.values() if package["name"] == ROOT]
    linked, needed = reachable(nodes, root, NORMAL), reachable(nodes, root, NORMAL_AND_BUILD)
    crates = [
        crate_component(packages[package], "required" if package in linked else BUILD_ONLY, checksums)
        for package in needed - {root}
    ]
    debian = [debian_component(name) for name in DEBIAN_PACKAGES]
    components = sorted(crates + debian, key=lambda component: component["bom-ref"])
    dependencies = [
        {
            "ref": crate_purl(packages[package]),
            "dependsOn": sorted(
                [crate_purl(packages[dependency]) for dependency in direct(nodes[package], NORMAL_AND_BUILD)]
                + [component["bom-ref"] for component in debian if package == root]
            ),
        }
        for package in needed
    ]
    dependencies += [{"ref": component["bom-ref"], "dependsOn": []} for component in debian]
    application = crate_component(packages[root], "required", checksums) | {"type": "application", "name": "ringtrue"}
    created = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", created), "component": application},
        "components": components,
        "dependencies": sorted(dependencies, key=lambda dependency: dependency["ref"]),
    }
    # The same components have the same number.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    document["serialNumber"] = f"urn:uuid:{number}"
    pathlib.Path(output).write_text(json.dumps(document, indent=2) + "\n")


main(*sys.argv[1:])
