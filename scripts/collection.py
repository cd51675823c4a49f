"""Makes a Bruno collection from the OpenAPI document: python collection.py OPENAPI FOLDER. The folder is made anew."""

import json
import shutil
import sys
from pathlib import Path

import yaml

METHODS = ("get", "post", "put", "patch", "delete")
# What only browsers, devices and operators open.
NOT_FOR_CALLERS = {"authorizeSandboxDevice", "getIcon", "getReference", "getStylesheet", "listErrors", "returnFromOperator"}

# Where a value comes from an earlier answer or from the environment. Other values are those of the document's examples.
VARIABLES = {
    "body": "expected_sms_body",
    "callback_url": "callback_url",
    "check_id": "check_id",
    "client_id": "credential_client_id",
    "code": "code",
    "from": "phone_number",
    "phone_number": "phone_number",
    "project_id": "project_id",
    "sim": "phone_number",
    "t": "device_token",
    "to": "receiver_phone_number",
    "workspace_id": "workspace_id",
}
# Where devices would go in the end, and where they come from: in the sandbox neither is needed. And whoever tries every
# call should not find that the project has gone live.
LEFT_OUT = {"redirect_url", "device_ip", "mode"}
# What is remembered of an answer, and by which expression.
REMEMBERED = {
    "createReverseSmsCheck": {
        "check_id": "res.body.check_id",
        "receiver_phone_number": "res.body.receiver_phone_number",
        "expected_sms_body": "res.body.expected_sms_body",
    },
    "createSecureSnaCheck": {"check_id": "res.body.check_id", "device_token": "res.body.url.split('t=')[1]"},
    "createDiscoveryCheck": {"check_id": "res.body.check_id", "device_token": "res.body.url.split('t=')[1]"},
    "createSimSwapCheck": {"check_id": "res.body.check_id"},
    "openSecureSnaUrl": {"code": "res.body.code"},
    "openDiscoveryUrl": {"code": "res.body.code"},
    "createProjectCredential": {"credential_client_id": "res.body.client_id"},
    "createWorkspaceCredential": {"credential_client_id": "res.body.client_id"},
    "createToken": {"token": "res.body.access_token"},
}
# Where the answer depends on what has happened to the check by then. Others are answered as the document says first.
DEPENDS = dict.fromkeys(["resendReverseSmsCallback", "resendSecureSnaCallback", "resendDiscoveryCallback"], "in 202, 409")
# As `ringtrue dev` has it; ids, client ids and secrets are in its dev.json.
ENVIRONMENT = {
    "base_url": "http://127.0.0.1:8080",
    "callback_url": "http://127.0.0.1:9099/callbacks",
    "phone_number": "+990123456700",
    "workspace_id": "",
    "project_id": "",
    "workspace_client_id": "",
    "project_client_id": "",
}
SECRETS = ["workspace_client_secret", "project_client_secret"]

README = """# Bruno collection

Every call of the API, for [Bruno](https://www.usebruno.com): open this folder as a collection, choose the environment `dev`, and fill in ids, client ids and secrets from `ringtrue-data/dev.json`.
Tokens are fetched by themselves. A create remembers what the calls after it need, so `Create`, `Send an SMS` and `Get` work one after the other, and `bru run -r --env dev` tries every call.

It is made from the OpenAPI document by `scripts/collection`; changes by hand are lost.
"""


def block(name, lines):
    return f"{name} {{\n" + "".join(f"  {line}".rstrip() + "\n" for line in lines) + "}\n"


def pairs(name, values):
    return block(name, [f"{key}: {value}" for key, value in values.items()])


def filled(value, name=None):
    """An example with variables in it."""
    if isinstance(value, dict):
        return {key: filled(member, key) for key, member in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        return [filled(item) for item in value]
    return f"{{{{{VARIABLES[name]}}}}}" if isinstance(value, str) and name in VARIABLES else value


class Collection:
    def __init__(self, document):
        self.document = document

    def resolved(self, node):
        while "$ref" in node:
            found = self.document
            for step in node["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            node = found
        return node

    def operations(self):
        """By operation id: path, method, operation and parameters."""
        found = {}
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if operation := item.get(method):
                    parameters = [*item.get("parameters", []), *operation.get("parameters", [])]
                    found[operation["operationId"]] = (path, method, operation, [self.resolved(p) for p in parameters])
        return found

    def files(self):
        """Paths and texts."""
        yield "bruno.json", json.dumps({"version": "1", "name": "Ringtrue", "type": "collection"}, indent=2) + "\n"
        yield "README.md", README
        yield "environments/dev.bru", pairs("vars", ENVIRONMENT) + "vars:secret [\n  " + ",\n  ".join(SECRETS) + "\n]\n"
        operations = self.operations()
        for place, tag in enumerate(self.document["tags"], start=1):
            wanted = [name for name in tag["x-operations"] if name not in NOT_FOR_CALLERS]
            if wanted:
                about = [pairs("meta", {"name": tag["name"], "seq": place}), block("docs", [tag["description"]])]
                yield f"{tag['name']}/folder.bru", "\n".join(about)
            for position, name in enumerate(wanted, start=1):
                yield f"{tag['name']}/{name}.bru", self.request(position, *operations[name])

    def request(self, position, path, method, operation, parameters):
        name, summary = operation["operationId"], operation["summary"]
        content_type, body = next(iter(operation.get("requestBody", {}).get("content", {}).items()), (None, None))
        kind = {None: "none", "application/x-www-form-urlencoded": "formUrlEncoded"}.get(content_type, "json")
        scheme = next(iter(operation["security"] or [{}]), {})
        authentication = "basic" if "client" in scheme else "oauth2" if "token" in scheme else "none"

        by_place = {"path": {}, "query": {}, "header": {}}
        for parameter in parameters:
            # What may be left out is there, switched off.
            key = parameter["name"] if parameter.get("required") else f"~{parameter['name']}"
            example = parameter.get("example", parameter["schema"].get("default", ""))
            by_place[parameter["in"]][key] = filled(str(example), parameter["name"])
        if content_type and content_type not in ("application/json", "application/x-www-form-urlencoded"):
            by_place["header"]["Content-Type"] = content_type
        url = "{{base_url}}" + path.replace("{", ":").replace("}", "")
        needed = [f"{key}={value}" for key, value in by_place["query"].items() if not key.startswith("~")]
        parts = [
            pairs("meta", {"name": summary, "type": "http", "seq": position}),
            pairs(method, {"url": "?".join([url, *(["&".join(needed)] if needed else [])]), "body": kind, "auth": authentication}),
        ]
        for place, title in [("query", "params:query"), ("path", "params:path"), ("header", "headers")]:
            if by_place[place]:
                parts.append(pairs(title, by_place[place]))
        if authentication == "basic":
            parts.append(pairs("auth:basic", {"username": "{{workspace_client_id}}", "password": "{{workspace_client_secret}}"}))
        elif authentication == "oauth2":
            parts.append(self.token(scheme["token"][0]))
        if kind == "formUrlEncoded":
            # An unknown token is revoked without complaint: the one that was made last, if any.
            parts.append(pairs("body:form-urlencoded", {**body["example"], **({"token": "{{token}}"} if name == "revokeToken" else {})}))
        elif kind == "json":
            parts.append(block("body:json", json.dumps(filled(body["example"]), indent=2).split("\n")))
        parts.append(pairs("assert", {"res.status": DEPENDS.get(name, f"eq {min(operation['responses'])}")}))
        if name in REMEMBERED:
            parts.append(pairs("vars:post-response", REMEMBERED[name]))
        if description := operation.get("description"):
            parts.append(block("docs", description.strip().split("\n")))
        return "\n".join(parts)

    @staticmethod
    def token(scope):
        owner = "workspace" if scope == "management" else "project"
        settings = {
            "grant_type": "client_credentials",
            "access_token_url": "{{base_url}}/oauth2/token",
            "refresh_token_url": "",
            "client_id": f"{{{{{owner}_client_id}}}}",
            "client_secret": f"{{{{{owner}_client_secret}}}}",
            "scope": scope,
            "credentials_placement": "basic_auth_header",
            "credentials_id": scope,
            "token_placement": "header",
            "token_header_prefix": "Bearer",
            "auto_fetch_token": "true",
            "auto_refresh_token": "false",
        }
        return pairs("auth:oauth2", settings)


def main(document, folder):
    collection = Collection(yaml.safe_load(Path(document).read_text()))
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in collection.files():
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
