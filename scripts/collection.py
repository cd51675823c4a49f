"""Generates a Bruno collection from the OpenAPI document: python collection.py OPENAPI FOLDER. Replaces the folder."""

import json
import shutil
import sys
from pathlib import Path

import yaml

METHODS = ("get", "post", "put", "patch", "delete")
# Operations for browsers, devices and operators.
OMITTED_OPERATIONS = {
    "authorizeSandboxDevice",
    "getIcon",
    "getReference",
    "getStylesheet",
    "listErrors",
    "returnFromHeaderEnrichment",
    "returnFromOperator",
    # Its body is a file of the user.
    "uploadLogo",
}

# Values from an earlier response or from the environment. Other values are the examples of the document.
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
    "verification_id": "verification_id",
    "workspace_id": "workspace_id",
}
# Not needed in the sandbox: `redirect_url` and `device_ip`. `mode` would take the project live.
OMITTED_PROPERTIES = {"redirect_url", "device_ip", "mode"}
# Variables set from a response, with their expressions.
RESPONSE_VARIABLES = {
    "createReverseSmsCheck": {
        "check_id": "res.body.check_id",
        "receiver_phone_number": "res.body.receiver_phone_number",
        "expected_sms_body": "res.body.expected_sms_body",
    },
    "createSecureSnaCheck": {"check_id": "res.body.check_id", "device_token": "res.body.url.split('t=')[1]"},
    "createDiscoveryCheck": {"check_id": "res.body.check_id", "device_token": "res.body.url.split('t=')[1]"},
    "createSimSwapCheck": {"check_id": "res.body.check_id"},
    "createVerification": {"verification_id": "res.body.verification_id"},
    "openSecureSnaUrl": {"code": "res.body.code"},
    "openDiscoveryUrl": {"code": "res.body.code"},
    "createProjectCredential": {"credential_client_id": "res.body.client_id"},
    "createWorkspaceCredential": {"credential_client_id": "res.body.client_id"},
    "createToken": {"token": "res.body.access_token"},
}
# Operations whose status depends on the state of the check. Others must respond with the lowest documented status.
EXPECTED_STATUS = {
    **dict.fromkeys(
        ["resendReverseSmsCallback", "resendSecureSnaCallback", "resendDiscoveryCallback", "resendVerificationCallback"],
        "in 202, 409",
    ),
    "redeemVerificationCode": "in 200, 400, 409",
}
# Defaults of `ringtrue dev`; its dev.json contains ids, client ids and secrets.
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

Try every API request in [Bruno](https://www.usebruno.com). Open this folder as a collection, select the environment `dev`, and enter the ids, client ids and secrets from `ringtrue-data/dev.json`.
Bruno fetches tokens automatically. A create request stores the variables that later requests need, so you can run `Create`, `Send an SMS` and `Get` one after the other. `bru run -r --env dev` runs all requests.

`scripts/collection` generates this folder from the OpenAPI document and overwrites manual changes.
"""


def block(name, lines):
    return f"{name} {{\n" + "".join(f"  {line}".rstrip() + "\n" for line in lines) + "}\n"


def pairs(name, values):
    return block(name, [f"{key}: {value}" for key, value in values.items()])


def insert_variables(value, name=None):
    """Replaces values of an example with variables."""
    if isinstance(value, dict):
        return {key: insert_variables(member, key) for key, member in value.items() if key not in OMITTED_PROPERTIES}
    if isinstance(value, list):
        return [insert_variables(item) for item in value]
    return f"{{{{{VARIABLES[name]}}}}}" if isinstance(value, str) and name in VARIABLES else value


class Collection:
    def __init__(self, document):
        self.document = document

    def resolve(self, node):
        while "$ref" in node:
            found = self.document
            for step in node["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            node = found
        return node

    def operations(self):
        """Path, method, operation and parameters by operation id."""
        found = {}
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if operation := item.get(method):
                    parameters = [*item.get("parameters", []), *operation.get("parameters", [])]
                    found[operation["operationId"]] = (path, method, operation, [self.resolve(p) for p in parameters])
        return found

    def files(self):
        """Yields the path and content of each file."""
        yield "bruno.json", json.dumps({"version": "1", "name": "Ringtrue", "type": "collection"}, indent=2) + "\n"
        yield "README.md", README
        yield "environments/dev.bru", pairs("vars", ENVIRONMENT) + "vars:secret [\n  " + ",\n  ".join(SECRETS) + "\n]\n"
        operations = self.operations()
        for sequence, tag in enumerate(self.document["tags"], start=1):
            names = [name for name in tag["x-operations"] if name not in OMITTED_OPERATIONS]
            if names:
                blocks = [pairs("meta", {"name": tag["name"], "seq": sequence}), block("docs", [tag["description"]])]
                yield f"{tag['name']}/folder.bru", "\n".join(blocks)
            for position, name in enumerate(names, start=1):
                yield f"{tag['name']}/{name}.bru", self.request(position, *operations[name])

    def request(self, position, path, method, operation, parameters):
        name, summary = operation["operationId"], operation["summary"]
        content_type, body = next(iter(operation.get("requestBody", {}).get("content", {}).items()), (None, None))
        kind = {None: "none", "application/x-www-form-urlencoded": "formUrlEncoded"}.get(content_type, "json")
        scheme = next(iter(operation["security"] or [{}]), {})
        authentication = "basic" if "client" in scheme else "oauth2" if "token" in scheme else "none"

        by_location = {"path": {}, "query": {}, "header": {}}
        for parameter in parameters:
            # Bruno disables parameters that begin with `~`.
            key = parameter["name"] if parameter.get("required") else f"~{parameter['name']}"
            example = parameter.get("example", parameter["schema"].get("default", ""))
            by_location[parameter["in"]][key] = insert_variables(str(example), parameter["name"])
        if content_type and content_type not in ("application/json", "application/x-www-form-urlencoded"):
            by_location["header"]["Content-Type"] = content_type
        url = "{{base_url}}" + path.replace("{", ":").replace("}", "")
        required = [f"{key}={value}" for key, value in by_location["query"].items() if not key.startswith("~")]
        parts = [
            pairs("meta", {"name": summary, "type": "http", "seq": position}),
            pairs(method, {"url": "?".join([url, *(["&".join(required)] if required else [])]), "body": kind, "auth": authentication}),
        ]
        for location, title in [("query", "params:query"), ("path", "params:path"), ("header", "headers")]:
            if by_location[location]:
                parts.append(pairs(title, by_location[location]))
        if authentication == "basic":
            parts.append(pairs("auth:basic", {"username": "{{workspace_client_id}}", "password": "{{workspace_client_secret}}"}))
        elif authentication == "oauth2":
            parts.append(self.token(scheme["token"][0]))
        if kind == "formUrlEncoded":
            # The last issued token. Revoking an unknown token succeeds too.
            parts.append(pairs("body:form-urlencoded", {**body["example"], **({"token": "{{token}}"} if name == "revokeToken" else {})}))
        elif kind == "json":
            parts.append(block("body:json", json.dumps(insert_variables(body["example"]), indent=2).split("\n")))
        parts.append(pairs("assert", {"res.status": EXPECTED_STATUS.get(name, f"eq {min(operation['responses'])}")}))
        if name in RESPONSE_VARIABLES:
            parts.append(pairs("vars:post-response", RESPONSE_VARIABLES[name]))
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
