"""Verifies a number with the client of openapi-python-client."""

import json
import os
import uuid

import httpx
from ringtrue_client import AuthenticatedClient
from ringtrue_client.api.o_auth import create_token
from ringtrue_client.api.projects import update_project
from ringtrue_client.api.verifications import create_verification, get_verification, redeem_verification_code
from ringtrue_client.models import (
    ChainEnd,
    CreateTokenBody,
    CreateTokenBodyGrantType,
    Problem,
    ProjectConfigurationPatch,
    ProjectPatch,
    ReverseSmsConfigurationPatch,
    SecureSnaNextStep,
    SecureSnaRedemption,
    VerificationInput,
    VerificationMethodsInputItem,
)

BASE_URL = os.environ["BASE_URL"]


def client(scope, prefix=""):
    """Returns a client with a token."""
    basic = httpx.BasicAuth(os.environ[f"{prefix}CLIENT_ID"], os.environ[f"{prefix}CLIENT_SECRET"])
    login = AuthenticatedClient(BASE_URL, token="", httpx_args={"auth": basic})
    token = create_token.sync(client=login, body=CreateTokenBody(grant_type=CreateTokenBodyGrantType.CLIENT_CREDENTIALS, scope=scope))
    return AuthenticatedClient(BASE_URL, token=token.access_token)


verifications = client("verification")
methods = [VerificationMethodsInputItem.SECURE_SNA, VerificationMethodsInputItem.REVERSE_SMS]
new = VerificationInput(phone_number=os.environ["PHONE_NUMBER"], methods=methods)
created = create_verification.sync(client=verifications, body=new)
step = created.next_step
assert isinstance(step, SecureSnaNextStep)
end = ChainEnd.from_dict(httpx.get(step.url, follow_redirects=True).json())
redemption = SecureSnaRedemption(code=end.code)
verified = redeem_verification_code.sync(created.verification_id, client=verifications, body=redemption)
assert verified.steps[0].method == "secure_sna"

problem = get_verification.sync(uuid.uuid4(), client=verifications)
assert isinstance(problem, Problem)

settings = ProjectConfigurationPatch(reverse_sms=ReverseSmsConfigurationPatch(ttl=120), verification=None)
project = update_project.sync(
    uuid.UUID(os.environ["WORKSPACE_ID"]),
    uuid.UUID(os.environ["PROJECT_ID"]),
    client=client("management", "WORKSPACE_"),
    body=ProjectPatch(configuration=settings),
)

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
