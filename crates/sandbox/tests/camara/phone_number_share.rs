//! Scenarios of CAMARA's `number-verification-phoneNumberShare.feature`.

use ringtrue_sandbox::camara::Endpoint;
use serde_json::json;

use crate::{
    Bearer::{self, Expired, Invalid, Missing, Named, Network},
    EVEN, Fixture, SHARE, VERIFY,
};

#[tokio::test]
async fn every_scenario() {
    const NOT_BY_NETWORK: &str = "NUMBER_VERIFICATION.USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK";
    let scenarios: [(&str, Bearer, u16, &str); 7] = [
        ("phone_number_share_01_generic_success_scenario", Network(EVEN, SHARE), 200, ""),
        ("phone_number_share_02_success_scenario", Network(EVEN, SHARE), 200, ""),
        ("phone_number_verify_401.1_no_authorization_header", Missing, 401, "UNAUTHENTICATED"),
        ("phone_number_verify_401.2_expired_access_token", Expired(SHARE), 401, "UNAUTHENTICATED"),
        ("phone_number_verify_401.3_invalid_access_token", Invalid, 401, "UNAUTHENTICATED"),
        ("phoneNumberShare_403.1_invalid_token_permissions", Network(EVEN, VERIFY), 403, "PERMISSION_DENIED"),
        (
            "phoneNumberShare_403.2_not_authenticated_using_network_or_sim_based_authentication",
            Named(EVEN, SHARE),
            403,
            NOT_BY_NETWORK,
        ),
    ];
    let fixture = Fixture::start().await;
    for (scenario, bearer, status, code) in scenarios {
        let response = fixture.call(Endpoint::DevicePhoneNumber, bearer, "").await;
        response.assert_camara_conventions(scenario);
        if status == 200 {
            assert_eq!(response.json(), json!({ "devicePhoneNumber": EVEN }), "{scenario}");
        } else {
            assert_eq!(response.error(), (status, code.to_owned()), "{scenario}");
        }
    }
}
