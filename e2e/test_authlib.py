"""PyPI `authlib`, unmodified, against the token endpoints, and as a relying party of sign-ins."""

import os
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url
from authlib.oidc.core import CodeIDToken, UserInfo
from authlib.oidc.discovery import OpenIDProviderMetadata
from authlib.oidc.discovery import get_well_known_url as get_openid_url
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from sign_in import REDIRECT_URI, HttpBrowser, create_client, next_number

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


@pytest.fixture(scope="module")
def provider(ringtrue):
    found = requests.get(get_openid_url(ringtrue["base_url"], external=True), timeout=30).json()
    provider = OpenIDProviderMetadata(found)
    provider.validate()
    return provider


def verify_id_token(provider, token, client_id, nonce, algorithm):
    keys = KeySet.import_key_set(requests.get(provider.jwks_uri, timeout=30).json())
    decoded = jwt.decode(token["id_token"], keys, algorithms=[algorithm])
    options = {
        "iss": {"essential": True, "value": provider.issuer},
        "aud": {"essential": True, "value": client_id},
        "nonce": {"essential": True, "value": nonce},
    }
    parameters = {"nonce": nonce, "client_id": client_id, "access_token": token["access_token"]}
    claims = CodeIDToken(decoded.claims, decoded.header, options, parameters)
    claims.validate(leeway=30)
    return claims


def sign_in(ringtrue, provider, credential, algorithm="RS256", **options):
    """Signs a user in, verifies the ID token, and reads userinfo."""
    number, nonce, verifier = next_number(), generate_token(20), generate_token(48)
    with OAuth2Session(
        credential["client_id"],
        scope="openid phone",
        redirect_uri=REDIRECT_URI,
        code_challenge_method="S256",
        **options,
    ) as client:
        url, state = client.create_authorization_url(
            provider.authorization_endpoint, nonce=nonce, code_verifier=verifier
        )
        returned = HttpBrowser(ringtrue["base_url"]).sign_in(url, number)
        assert parse_qs(urlsplit(returned).query)["iss"] == [provider.issuer]
        token = client.fetch_token(
            provider.token_endpoint, authorization_response=returned, state=state, code_verifier=verifier
        )
        claims = verify_id_token(provider, token, credential["client_id"], nonce, algorithm)
        user = UserInfo(client.get(provider["userinfo_endpoint"], timeout=30).json())
    assert (user.sub, user.phone_number, claims["phone_number"]) == (claims["sub"], number, number)
    with OAuth2Session(
        credential["client_id"], redirect_uri=REDIRECT_URI, **options
    ) as again, pytest.raises(OAuthError) as raised:
        again.fetch_token(provider.token_endpoint, authorization_response=returned, code_verifier=verifier)
    assert raised.value.error == "invalid_grant"


class ShortPrivateKeyJWT(PrivateKeyJWT):
    """The library's assertions expire after an hour, which is too long, and repeat their `jti` if `claims` is given."""

    def sign(self, auth, token_endpoint):
        self.claims = {"exp": int(time.time()) + 300}
        return super().sign(auth, token_endpoint)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_sign_in(ringtrue, provider, method, algorithm):
    credential = create_client(
        ringtrue, token_endpoint_auth_method=method, id_token_signed_response_alg=algorithm
    )
    secret = credential["client_secret"]
    options = {"client_secret": secret, "token_endpoint_auth_method": method}
    sign_in(ringtrue, provider, credential, algorithm, **options)


def test_sign_in_by_private_key_jwt(ringtrue, provider):
    key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    jwks = {"keys": [key.as_dict(private=False)]}
    credential = create_client(ringtrue, token_endpoint_auth_method="private_key_jwt", jwks=jwks)
    method = ShortPrivateKeyJWT(provider.token_endpoint, alg="ES256", headers={"kid": "one"})
    options = {"client_secret": key, "token_endpoint_auth_method": method}
    sign_in(ringtrue, provider, credential, **options)


def test_sign_in_of_a_public_client(ringtrue, provider):
    credential = create_client(ringtrue, token_endpoint_auth_method="none")
    sign_in(ringtrue, provider, credential, token_endpoint_auth_method="none")
