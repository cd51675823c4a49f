use ringtrue_engine::ports::lookups::{LookupError, LookupResult};
use ringtrue_operators::number_lookup::http_hlr::{GenericJson, HlrDriver, HlrLookupKind, NetworkPointers};
use serde_json::{Value, json as value};

use crate::{
    LookupOutcome,
    fake_vendor::{FakeVendor, client, json},
    network,
    vendor_configs::{assert_results, generic, hlr_lookups, infobip, rsa, twilio, vonage},
};

const NO_DATA: LookupOutcome = Ok(LookupResult::NoData);
const NO_SUBSCRIBER: LookupOutcome = Ok(LookupResult::NoSubscriber);
const REFUSED: LookupOutcome = Err(LookupError::Refused);
const INVALID_RESPONSE: LookupOutcome = Err(LookupError::InvalidResponse);

#[tokio::test]
async fn infobip_responses_are_parsed() {
    let vendor = FakeVendor::start().await;
    let response_with = |codes: Value, ported: bool, group: &str, error: (u32, &str, bool)| {
        let (id, name, permanent) = error;
        json(
            200,
            &value!({ "results": [{
                "to": "447700900123", "mccMnc": codes, "imsi": "234100000000000", "ported": ported, "roaming": false,
                "status": { "groupId": 3, "groupName": group, "id": 5, "name": "DELIVERED_TO_HANDSET" },
                "error": { "groupId": 0, "groupName": "OK", "id": id, "name": name, "permanent": permanent },
            }], "bulkId": "1" }),
        )
    };
    let fine = (0, "NO_ERROR", false);
    let absent = (27, "EC_ABSENT_SUBSCRIBER", false);
    let unknown = (1, "EC_UNKNOWN_SUBSCRIBER", true);
    let cases = [
        (response_with(value!("23410"), false, "DELIVERED", fine), network("23410")),
        (response_with(value!("26202"), true, "DELIVERED", fine), network("26202")),
        (response_with(value!("262002"), true, "DELIVERED", fine), network("26202")),
        (response_with(value!("23410"), false, "UNDELIVERABLE", absent), network("23410")),
        (response_with(value!(null), false, "UNDELIVERABLE", absent), NO_DATA),
        (response_with(value!("23410"), false, "UNDELIVERABLE", unknown), NO_SUBSCRIBER),
        (response_with(value!(null), false, "UNDELIVERABLE", unknown), NO_SUBSCRIBER),
        (response_with(value!("23410"), false, "UNDELIVERABLE", (1, "EC_UNKNOWN_SUBSCRIBER", false)), network("23410")),
        (response_with(value!(null), false, "UNDELIVERABLE", (9, "EC_ILLEGAL_SUBSCRIBER", true)), NO_DATA),
        (response_with(value!(null), false, "UNDELIVERABLE", (34, "EC_SYSTEM_FAILURE", false)), REFUSED),
        (response_with(value!(null), false, "REJECTED", fine), REFUSED),
        (response_with(value!(""), false, "PENDING", fine), REFUSED),
        (response_with(value!("00000"), false, "DELIVERED", fine), NO_DATA),
        (response_with(value!("unknown"), false, "DELIVERED", fine), INVALID_RESPONSE),
        (json(200, r#"{"results":[]}"#), INVALID_RESPONSE),
        (json(200, r#"{"results":["23410"]}"#), INVALID_RESPONSE),
        (
            json(401, r#"{"requestError":{"serviceException":{"messageId":"UNAUTHORIZED","text":"Invalid login"}}}"#),
            REFUSED,
        ),
        (json(200, r#"{"requestError":{"serviceException":{"messageId":"GENERAL_ERROR"}}}"#), INVALID_RESPONSE),
    ];
    assert_results(&vendor, infobip(vendor.url("/")), &client(), &cases).await;
}

#[tokio::test]
async fn hlr_lookups_responses_are_parsed() {
    let (vendor, client) = (FakeVendor::start().await, client());
    let response_with = |status: Value, codes: Value, processing: &str| {
        json(
            200,
            &value!({
                "id": "f94ef092cb53", "msisdn": "+447700900123", "connectivity_status": status, "mccmnc": codes,
                "mcc": "234", "mnc": "10", "is_ported": true, "ported_network_name": null, "error_code": null,
                "processing_status": processing, "data_source": "LIVE_HLR",
            }),
        )
    };
    let cases = [
        (response_with(value!("CONNECTED"), value!("23410"), "COMPLETED"), network("23410")),
        (response_with(value!("ABSENT"), value!("26202"), "COMPLETED"), network("26202")),
        (response_with(value!("ABSENT"), value!(null), "COMPLETED"), NO_DATA),
        (response_with(value!("ABSENT"), value!("23"), "COMPLETED"), INVALID_RESPONSE),
        (response_with(value!("INVALID_MSISDN"), value!(null), "COMPLETED"), NO_SUBSCRIBER),
        (response_with(value!("INVALID_MSISDN"), value!("23410"), "COMPLETED"), NO_SUBSCRIBER),
        (response_with(value!("UNDETERMINED"), value!("23410"), "COMPLETED"), REFUSED),
        (response_with(value!("CONNECTED"), value!("23410"), "REJECTED"), REFUSED),
        (response_with(value!(null), value!(null), "FAILED"), REFUSED),
        (response_with(value!(null), value!("23410"), "COMPLETED"), INVALID_RESPONSE),
        (response_with(value!("SINGING"), value!("23410"), "COMPLETED"), INVALID_RESPONSE),
        (response_with(value!(1), value!("23410"), "COMPLETED"), INVALID_RESPONSE),
    ];
    assert_results(&vendor, hlr_lookups(vendor.url("/api/v2"), HlrLookupKind::Hlr), &client, &cases).await;

    let response_with = |status: &str, codes: Value| json(200, &value!({ "query_status": status, "mccmnc": codes }));
    let cases = [
        (response_with("OK", value!("23410")), network("23410")),
        (response_with("OK", value!(null)), NO_DATA),
        (response_with("FAILED", value!(null)), REFUSED),
        (response_with("CONNECTED", value!("23410")), INVALID_RESPONSE),
    ];
    assert_results(&vendor, hlr_lookups(vendor.url("/api/v2"), HlrLookupKind::Mnp), &client, &cases).await;
}

#[tokio::test]
async fn twilio_responses_are_parsed() {
    let vendor = FakeVendor::start().await;
    let response_with = |valid: Value, line: Value| {
        json(
            200,
            &value!({
                "calling_country_code": "44", "country_code": "GB", "phone_number": "+447700900123",
                "valid": valid, "validation_errors": [], "line_type_intelligence": line, "sim_swap": null,
            }),
        )
    };
    let line = |country: Value, network: Value, error: Value| {
        value!({
            "carrier_name": "A Carrier", "type": "mobile", "error_code": error,
            "mobile_country_code": country, "mobile_network_code": network,
        })
    };
    let fine = value!(null);
    let cases = [
        (response_with(value!(true), line(value!("234"), value!("10"), fine.clone())), network("23410")),
        (response_with(value!(true), line(value!("310"), value!("260"), fine.clone())), network("310260")),
        (response_with(value!(true), line(value!(234), value!(10), fine.clone())), network("23410")),
        (response_with(value!(true), line(value!("234"), value!(null), fine.clone())), NO_DATA),
        (response_with(value!(true), line(value!("000"), value!("00"), fine.clone())), NO_DATA),
        (response_with(value!(true), line(value!("GB"), value!("10"), fine.clone())), INVALID_RESPONSE),
        (response_with(value!(true), line(value!("234"), value!({}), fine.clone())), INVALID_RESPONSE),
        (response_with(value!(true), line(value!(null), value!(null), fine)), NO_DATA),
        (response_with(value!(true), value!(null)), NO_DATA),
        (response_with(value!(true), line(value!(null), value!(null), value!(60_620))), NO_DATA),
        (response_with(value!(true), line(value!(null), value!(null), value!(60_600))), NO_DATA),
        (response_with(value!(true), line(value!(null), value!(null), value!(60_607))), NO_DATA),
        (response_with(value!(true), line(value!(null), value!(null), value!(60_601))), REFUSED),
        (response_with(value!(false), value!(null)), NO_SUBSCRIBER),
        (response_with(value!(null), line(value!("234"), value!("10"), value!(null))), INVALID_RESPONSE),
        (response_with(value!("true"), line(value!("234"), value!("10"), value!(null))), INVALID_RESPONSE),
        (json(404, r#"{"code":20404,"message":"The requested resource was not found","status":404}"#), NO_DATA),
        (json(404, "not found"), NO_DATA),
    ];
    assert_results(&vendor, twilio(vendor.url("/")), &client(), &cases).await;
}

#[tokio::test]
async fn vonage_responses_are_parsed() {
    let vendor = FakeVendor::start().await;
    let response_with = |code: &str, network_code: Value| {
        json(
            200,
            &value!({ "request_id": "1", "insights": { "current_carrier": {
                "name": "A Carrier", "network_type": "MOBILE", "country_code": "GB", "network_code": network_code,
                "status": { "code": code, "message": "…" },
            } } }),
        )
    };
    let cases = [
        (response_with("OK", value!("23410")), network("23410")),
        (response_with("OK", value!("310260")), network("310260")),
        (response_with("OK", value!(null)), NO_DATA),
        (response_with("OK", value!("234-10")), INVALID_RESPONSE),
        (response_with("PARTIAL_SUCCESS", value!("23410")), network("23410")),
        (response_with("INVALID_NUMBER_FORMAT", value!(null)), NO_SUBSCRIBER),
        (response_with("NOT_FOUND", value!(null)), NO_DATA),
        (response_with("NO_COVERAGE", value!(null)), NO_DATA),
        (response_with("UNSUPPORTED_NETWORK_TYPE", value!(null)), NO_DATA),
        (response_with("UNAUTHORIZED", value!(null)), REFUSED),
        (response_with("INVALID_PURPOSE", value!(null)), REFUSED),
        (response_with("SUPPLIER_ERROR", value!("23410")), REFUSED),
        (response_with("INTERNAL_ERROR", value!(null)), REFUSED),
        (json(200, r#"{"insights":{"current_carrier":{"network_code":"23410"}}}"#), INVALID_RESPONSE),
        (json(200, r#"{"insights":{}}"#), INVALID_RESPONSE),
    ];
    assert_results(&vendor, vonage(vendor.url("/"), &rsa()), &client(), &cases).await;
}

#[tokio::test]
async fn generic_responses_are_parsed() {
    let (vendor, client) = (FakeVendor::start().await, client());
    let response_with = |country: Value, network: Value, code: Value| {
        json(200, &value!({ "imm": { "mcc": country, "mnc": network, "errcode": code } }))
    };
    let cases = [
        (response_with(value!("234"), value!("10"), value!(0)), network("23410")),
        // A JSON number has lost its leading zeros, so the completed code must be that of a configured network.
        (response_with(value!(262), value!(2), value!("0")), network("26202")),
        (response_with(value!(262), value!(7), value!("0")), INVALID_RESPONSE),
        (response_with(value!(262), value!("2"), value!("0")), INVALID_RESPONSE),
        (response_with(value!("234"), value!("10"), value!(27)), network("23410")),
        (response_with(value!(null), value!(""), value!(0)), NO_DATA),
        (response_with(value!(0), value!(0), value!(0)), NO_DATA),
        (response_with(value!("n/a"), value!("n/a"), value!(0)), INVALID_RESPONSE),
        (response_with(value!("234"), value!("10"), value!(1)), NO_SUBSCRIBER),
        (response_with(value!("234"), value!("10"), value!("INVALID")), NO_SUBSCRIBER),
        (response_with(value!("234"), value!("10"), value!(151)), REFUSED),
        (json(200, r#"{"imm":{"errcode":27}}"#), NO_DATA),
        (json(200, r#"{"imm":{"errcode":0}}"#), INVALID_RESPONSE),
        (json(200, r#"{"imm":{"mcc":"234","errcode":0}}"#), INVALID_RESPONSE),
        (json(404, ""), NO_DATA),
        (json(410, ""), REFUSED),
    ];
    assert_results(&vendor, HlrDriver::GenericJson(generic(&vendor.url("/"))), &client, &cases).await;

    let url = format!("{}{{digits}}", vendor.url("/"));
    let codes = GenericJson::new(url, NetworkPointers::Codes("/0/network".to_owned()));
    let cases = [
        (json(200, r#"[{"network":23410}]"#), network("23410")),
        (json(200, r#"[{"network":null}]"#), NO_DATA),
        (json(200, r#"[{"network":[]}]"#), INVALID_RESPONSE),
        (json(200, "[]"), INVALID_RESPONSE),
    ];
    assert_results(&vendor, HlrDriver::GenericJson(codes), &client, &cases).await;
}
