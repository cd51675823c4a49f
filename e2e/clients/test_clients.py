"""Generates clients from the OpenAPI document, compiles them, and runs a verification with each.

openapi-generator has a generator for every language; its jar also has what the Java client needs at run time. The Go client
needs two libraries, which Debian has. `target/clients` keeps the compiled clients until the document, the programs or the
tools change.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUTPUT = ROOT / "target/clients"
JAR = Path(importlib.util.find_spec("openapi_generator_cli").origin).with_name("openapi-generator.jar")
JAVA_LIBRARIES = [JAR, *(Path("/usr/share/java") / f"{name}.jar" for name in ["geronimo-annotation-1.3-spec", "httpmime", "httpcore"])]
GO_LIBRARIES = Path("/usr/share/gocode")
# Options of openapi-generator.
GENERATORS = {
    "typescript": {"generatorName": "typescript-fetch"},
    "python": {"generatorName": "python", "packageName": "ringtrue_client"},
    "go": {"generatorName": "go", "packageName": "ringtrue"},
    "rust": {"generatorName": "rust", "packageName": "ringtrue-client"},
    # Without the first option, a client sends omitted lists as empty ones. `jackson-databind-nullable`, which the second one
    # avoids, is neither in Debian nor in the jar.
    "java": {
        "generatorName": "java",
        "library": "native",
        "additionalProperties": {"containerDefaultToNull": True, "openApiNullable": False},
    },
}


def run(*command, cwd=OUTPUT, **environment):
    """Runs a command. Returns its output, and fails with it."""
    settings = {"env": {**os.environ, **environment}, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    completed = subprocess.run([str(part) for part in command], cwd=cwd, check=False, **settings)
    assert completed.returncode == 0, f"{command[0]} failed:\n{completed.stdout[-8000:]}"
    return completed.stdout


def digest(document):
    """A digest of everything that the compiled clients are made from."""
    files = [*sorted(HERE.glob("*.*")), *(ROOT / file for file in ("e2e/requirements.txt", "e2e/package-lock.json", "rust-toolchain.toml"))]
    tools = [["javac", "-version"], ["go", "version"], ["node", "--version"]]
    parts = [document.encode(), *(file.read_bytes() for file in files), *(run(*tool).encode() for tool in tools)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def generate(document):
    """Generates the clients of openapi-generator, all with one process. Returns their folders by language."""
    folders = {language: OUTPUT / "generated" / language for language in GENERATORS}
    for language, options in GENERATORS.items():
        settings = {"inputSpec": str(document), "outputDir": str(folders[language]), "globalProperties": {"apiTests": "false", "modelTests": "false", "apiDocs": "false", "modelDocs": "false"}}
        (OUTPUT / f"{language}.json").write_text(json.dumps({**options, **settings}))
    output = run("java", "-jar", JAR, "batch", "--fail-fast", *(f"{language}.json" for language in GENERATORS))
    assert "[ERROR]" not in output and "[WARN]" not in output, output
    return folders


def compile_typescript(folder):
    shutil.copy(HERE / "verify.ts", folder)
    options = ["--strict", "--target", "es2022", "--module", "commonjs", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable"]
    node = ["--types", "node", "--typeRoots", ROOT / "e2e/node_modules/@types"]
    run(ROOT / "e2e/node_modules/.bin/tsc", *options, *node, "--rootDir", folder, "--outDir", folder / "dist", folder / "verify.ts")
    return ["node", folder / "dist/verify.js"], {}


def compile_python(folder):
    return [ROOT / "target/python/bin/python", "-W", "error", HERE / "verify.py"], {"PYTHONPATH": str(folder)}


def compile_go(folder):
    workspace = OUTPUT / "generated/gopath"
    (workspace / "src").mkdir(parents=True)
    folder.rename(workspace / "src/ringtrue")
    (workspace / "src/verify").mkdir()
    shutil.copy(HERE / "verify.go", workspace / "src/verify")
    program = OUTPUT / "generated/verify-go"
    run("go", "build", "-o", program, "verify", GO111MODULE="off", GOPATH=f"{workspace}:{GO_LIBRARIES}", GOFLAGS="")
    return [program], {}


def compile_rust(folder):
    # The program is a binary of the generated package. No feature: `ringtrue dev` has no TLS.
    manifest = folder / "Cargo.toml"
    # The generated client uses files, because a logo is one. The program also needs a runtime.
    text, count = re.subn(r'^(tokio = .*features = \["fs")\]', r'\1, "rt", "macros"]', manifest.read_text(), flags=re.M)
    assert count == 1, "the generated manifest has no tokio"
    manifest.write_text(text + "\n[workspace]\n")
    shutil.copy(HERE / "verify.rs", folder / "src/main.rs")
    shutil.copy(HERE / "Cargo.lock", folder)
    target = OUTPUT / "rust"
    options = ["--locked", "--quiet", "--no-default-features", "--manifest-path", manifest]
    # Without debugging information, which takes longer to write than the code.
    run("cargo", "build", *options, CARGO_TARGET_DIR=str(target), CARGO_PROFILE_DEV_DEBUG="0")
    return [target / "debug/ringtrue-client"], {}


def compile_java(folder):
    path = os.pathsep.join(str(library) for library in JAVA_LIBRARIES)
    sources = [*(folder / "src/main").rglob("*.java"), HERE / "Verify.java"]
    run("javac", "-nowarn", "-proc:none", "-cp", path, "-d", folder / "classes", *sources)
    return ["java", "-cp", f"{folder / 'classes'}{os.pathsep}{path}", "Verify"], {}


def generate_attrs(document):
    """Generates the client of openapi-python-client."""
    folder = OUTPUT / "generated/openapi-python-client"
    generator = ROOT / "target/python/bin/openapi-python-client"
    output = run(generator, "generate", "--path", document, "--meta", "none", "--output-path", folder / "ringtrue_client")
    # It does not know the types of icons, logos and event streams. Nothing else may be left out.
    project = "/v1/management/workspaces/{workspace_id}/projects/{project_id}"
    assert [line for line in output.splitlines() if line.startswith(("WARNING", "ERROR"))] == [
        "WARNING parsing GET /assets/icon.svg within service.",
        f"WARNING parsing PUT {project}/logo within projects. Endpoint will not be generated.",
        f"WARNING parsing GET {project}/callbacks/stream within usage_and_audit. Endpoint will not be generated.",
    ]
    return [ROOT / "target/python/bin/python", HERE / "verify_attrs.py"], {"PYTHONPATH": str(folder)}


COMPILERS = {
    "rust": compile_rust,
    "java": compile_java,
    "go": compile_go,
    "typescript": compile_typescript,
    "python": compile_python,
}


@pytest.fixture(scope="module")
def programs(ringtrue):
    """Commands and environments of the compiled programs, by client. Compilers run at the same time."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    # The document that the binary serves. Its address differs in each run, and programs get it as a variable.
    text = requests.get(ringtrue["base_url"] + "/openapi.json", timeout=10).text.replace(ringtrue["base_url"], "http://127.0.0.1:8080")
    made, made_from = OUTPUT / "programs.json", digest(text)
    if made.exists() and (known := json.loads(made.read_text()))["made_from"] == made_from:
        return known["programs"]
    made.unlink(missing_ok=True)
    shutil.rmtree(OUTPUT / "generated", ignore_errors=True)
    (OUTPUT / "generated").mkdir()
    document = OUTPUT / "openapi.json"
    document.write_text(text)
    folders = generate(document)
    with ThreadPoolExecutor() as pool:
        compiled = {language: pool.submit(compiler, folders[language]) for language, compiler in COMPILERS.items()}
        compiled["openapi-python-client"] = pool.submit(generate_attrs, document)
    programs = {client: future.result() for client, future in compiled.items()}
    made.write_text(json.dumps({"made_from": made_from, "programs": programs}, default=str))
    return programs


@pytest.mark.parametrize("client", [*COMPILERS, "openapi-python-client"])
def test_generated_client_verifies_a_number(ringtrue, programs, client):
    """Runs a program, which prints what it saw as JSON."""
    command, environment = programs[client]
    project, workspace = ringtrue["project"], ringtrue["workspace"]
    settings = {
        "BASE_URL": ringtrue["base_url"],
        "CLIENT_ID": project["client_id"],
        "CLIENT_SECRET": project["client_secret"],
        "PROJECT_ID": project["project_id"],
        "WORKSPACE_ID": workspace["workspace_id"],
        "WORKSPACE_CLIENT_ID": workspace["client_id"],
        "WORKSPACE_CLIENT_SECRET": workspace["client_secret"],
        "PHONE_NUMBER": f"+99012349{list(programs).index(client)}100",
    }
    output = run(*command, **settings, **environment)
    seen = json.loads(output.strip().splitlines()[-1])
    assert seen == {"next_step": "secure_sna", "status": "COMPLETED", "match": True, "method": "secure_sna", "error_code": "check_not_found", "ttl": 120}
