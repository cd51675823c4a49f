"""PyPI `authlib`, unmodified, against the token endpoints."""

import os

import pytest
import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url

# `ringtrue dev` uses plain HTTP on loopback, which authlib rejects by default.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"


@pytest.fixture(scope="module")
def metadata(ringtrue):
    found = requests.get(get_well_known_url(ringtrue["base_url"], external=True), timeout=10).json()
    metadata = AuthorizationServerMetadata(found)
    assert metadata.issuer == ringtrue["base_url"]
    return metadata


def session(credential, **options):
    return OAuth2Session(credential["client_id"], credential["client_secret"], **options)


# The library's default is Basic.
METHODS = ["client_secret_basic", "client_secret_post"]


@pytest.mark.parametrize("method", METHODS)
def test_token_is_accepted_by_the_api(ringtrue, metadata, method):
    assert method in metadata.token_endpoint_auth_methods_supported
    with session(ringtrue["workspace"], scope="management", token_endpoint_auth_method=method) as client:
        token = client.fetch_token(metadata.token_endpoint, grant_type="client_credentials")
        assert token["token_type"] == "bearer"
        response = client.get(f"{ringtrue['base_url']}/v1/management/workspaces", timeout=10)
        assert response.status_code == 200
        assert response.json()["content"][0]["workspace_id"] == ringtrue["workspace"]["workspace_id"]


@pytest.mark.parametrize("method", METHODS)
def test_revoked_token_is_rejected(ringtrue, metadata, method):
    options = {"token_endpoint_auth_method": method, "revocation_endpoint_auth_method": method}
    with session(ringtrue["workspace"], scope="management", **options) as client:
        token = client.fetch_token(metadata.token_endpoint, grant_type="client_credentials")
        revoked = client.revoke_token(metadata.revocation_endpoint, token=token["access_token"])
        assert (revoked.status_code, revoked.json()) == (200, {})
        response = client.get(f"{ringtrue['base_url']}/v1/management/workspaces", timeout=10)
        assert response.status_code == 401


@pytest.mark.parametrize(
    ("change", "scope", "error"),
    [({"client_secret": "wrong"}, "reverse_sms", "invalid_client"), ({}, "management", "invalid_scope")],
)
def test_errors_map_to_errors_of_the_library(ringtrue, metadata, change, scope, error):
    with session({**ringtrue["project"], **change}, scope=scope) as client, pytest.raises(OAuthError) as raised:
        client.fetch_token(metadata.token_endpoint, grant_type="client_credentials")
    assert raised.value.error == error
