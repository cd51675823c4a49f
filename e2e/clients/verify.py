"""Verifies a number with the client of openapi-generator's `python`."""

import json
import os
import urllib.request
import uuid

import ringtrue_client as api


def client(scope, prefix=""):
    """Returns a client with a token."""
    credentials = {"username": os.environ[f"{prefix}CLIENT_ID"], "password": os.environ[f"{prefix}CLIENT_SECRET"]}
    login = api.ApiClient(api.Configuration(host=os.environ["BASE_URL"], **credentials))
    token = api.OAuthApi(login).create_token("client_credentials", scope=scope)
    return api.ApiClient(api.Configuration(host=os.environ["BASE_URL"], access_token=token.access_token))


verifications = api.VerificationsApi(client("verification"))
new = api.VerificationInput(phone_number=os.environ["PHONE_NUMBER"], methods=["secure_sna", "reverse_sms"])
created = verifications.create_verification(new)
step = created.next_step.actual_instance
assert isinstance(step, api.SecureSnaNextStep)
with urllib.request.urlopen(step.url) as response:
    end = api.ChainEnd.from_json(response.read())
verified = verifications.redeem_verification_code(created.verification_id, api.SecureSnaRedemption(code=end.code))
assert verified.steps[0].method == "secure_sna"

try:
    verifications.get_verification(uuid.uuid4())
    raise AssertionError("an unknown verification")
except api.exceptions.NotFoundException as error:
    problem = error.data

patch = api.ProjectPatch(
    configuration=api.ProjectConfigurationPatch(
        reverse_sms=api.ReverseSmsConfigurationPatch(ttl=120),
        verification=None,
    )
)
projects = api.ProjectsApi(client("management", "WORKSPACE_"))
project = projects.update_project(os.environ["WORKSPACE_ID"], os.environ["PROJECT_ID"], patch)

print(
    json.dumps(
        {
            "next_step": step.method,
            "status": verified.status,
            "match": verified.match,
            "method": verified.method,
            "error_code": problem.error_code,
            "ttl": project.configuration.reverse_sms.ttl,
        }
    )
)
