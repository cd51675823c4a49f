"""Writes a directory as a container image: a tar file that `docker load`, `podman load` and `skopeo copy` read.

    python3 scripts/image.py ROOT VERSION ARCHITECTURE FILE

The file is an OCI image layout (https://github.com/opencontainers/image-spec) with the manifest of Docker beside it, as
`docker save` writes it. The same directory and SOURCE_DATE_EPOCH give the same bytes.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
import time

USER = 10001
# Directories of the user; everything else belongs to root.
USER_DIRECTORIES = {"etc/ringtrue", "var/lib/ringtrue"}
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
# Tests need no small images.
COMPRESSION_LEVEL = int(os.environ.get("IMAGE_COMPRESSION_LEVEL", "9"))
SECOND = 1_000_000_000
# As in deploy/Dockerfile; a test compares them.
CONFIG = {
    "User": f"{USER}:{USER}",
    "ExposedPorts": {"8080/tcp": {}, "9464/tcp": {}},
    "Env": ["PATH=/usr/local/bin", "RINGTRUE_HTTP__LISTEN=0.0.0.0:8080", "RINGTRUE_METRICS__LISTEN=0.0.0.0:9464"],
    "Entrypoint": ["/usr/local/bin/ringtrue"],
    "Cmd": ["serve"],
    "WorkingDir": "/var/lib/ringtrue",
    "StopSignal": "SIGTERM",
    # Not in the OCI specification: Docker reads it, others ignore it.
    "Healthcheck": {
        "Test": ["CMD", "/usr/local/bin/healthcheck"],
        "Interval": 10 * SECOND,
        "Timeout": 5 * SECOND,
        "StartPeriod": 10 * SECOND,
        "Retries": 3,
    },
}


def entry(name: str, mode: int, kind: bytes, size: int = 0, owner: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.size, info.mtime = mode, kind, size, EPOCH
    info.uid = info.gid = owner
    return info


def layer(root: pathlib.Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            name, mode = str(path.relative_to(root)), path.stat().st_mode & 0o7777
            owner = USER if name in USER_DIRECTORIES else 0
            if path.is_dir():
                tar.addfile(entry(name, mode, tarfile.DIRTYPE, owner=owner))
            else:
                content = path.read_bytes()
                tar.addfile(entry(name, mode, tarfile.REGTYPE, len(content), owner), io.BytesIO(content))
    return buffer.getvalue()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def to_json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def main(root: str, version: str, architecture: str, output: str) -> None:
    files = {}

    def add_blob(kind: str, content: bytes) -> dict:
        files[f"blobs/sha256/{digest(content)}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest(content)}", "size": len(content)}

    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    uncompressed = layer(pathlib.Path(root))
    layer_blob = add_blob("layer.v1.tar+gzip", gzip.compress(uncompressed, COMPRESSION_LEVEL, mtime=0))
    labels = {
        "org.opencontainers.image.title": "Ringtrue",
        "org.opencontainers.image.description": "Self-hosted phone number verification through mobile operators",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": created,
    }
    config_blob = add_blob("config.v1+json", to_json({
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": {**CONFIG, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(uncompressed)}"]},
        "history": [{"created": created, "created_by": "scripts/image.py"}],
    }))
    manifest_blob = add_blob("manifest.v1+json", to_json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_blob,
        "layers": [layer_blob],
        "annotations": labels,
    }))
    manifest_blob["annotations"] = {
        "io.containerd.image.name": f"docker.io/library/ringtrue:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    files["oci-layout"] = to_json({"imageLayoutVersion": "1.0.0"})
    files["index.json"] = to_json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest_blob],
    })
    path = lambda blob: "blobs/sha256/" + blob["digest"].removeprefix("sha256:")
    files["manifest.json"] = to_json([{
        "Config": path(config_blob),
        "RepoTags": [f"ringtrue:{version}", "ringtrue:latest"],
        "Layers": [path(layer_blob)],
    }])
    with tarfile.open(output, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            tar.addfile(entry(folder, 0o755, tarfile.DIRTYPE))
        for name in sorted(files):
            tar.addfile(entry(name, 0o644, tarfile.REGTYPE, len(files[name])), io.BytesIO(files[name]))


main(*sys.argv[1:])
