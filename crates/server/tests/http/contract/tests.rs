//! Tests of the contract validator.

use serde_json::json;

use super::Contract;

fn contract() -> Contract {
    let problem = |code: &str| {
        json!({
            "x-error-codes": [code],
            "headers": {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}},
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        })
    };
    let document = json!({
        "paths": {
            "/things/{id}": {
                "get": {"responses": {"200": {"content": {"application/json": {"schema": {
                    "type": "object", "required": ["id", "at"], "additionalProperties": false,
                    "properties": {"id": {"format": "uuid"}, "at": {"format": "date-time"}},
                }}}}}},
                "delete": {"responses": {
                    "204": {"headers": {"X-Left": {"required": true, "schema": {"type": "integer", "minimum": 0}}}},
                    "404": {"$ref": "#/components/responses/NotFound"},
                }},
            },
            "/things/all": {"get": {"responses": {"200": {"content": {"text/plain": {"schema": {}}}}}}},
        },
        "components": {
            "headers": {"RequestId": {"required": true, "schema": {"type": "string", "minLength": 1}}},
            "schemas": {"Problem": {
                "type": "object", "required": ["status", "detail", "error_code"], "additionalProperties": false,
                "properties": {
                    "status": {}, "detail": {}, "error_code": {"x-extensible-enum": ["not_found", "method_not_allowed"]},
                },
            }},
            "responses": {"NotFound": problem("not_found")},
        },
        "x-method-responses": {
            "MethodNotAllowed": problem("method_not_allowed"), "OAuthMethodNotAllowed": problem("method_not_allowed"),
        },
    });
    Contract::new(&document.to_string()).expect("a document")
}

/// Validates a response and returns the error.
fn check(call: &str, status: u16, pairs: &[(&str, &str)], body: &str) -> Result<(), String> {
    let (method, path) = call.split_once(' ').expect("a method and a path");
    let headers: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    contract().check(method, path, status, &headers, body.as_bytes())
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
const PROBLEM: (&str, &str) = ("Content-Type", "application/problem+json");
const ID: (&str, &str) = ("x-request-id", "r1");
const THING: &str = r#"{"id": "01a1d964-6e3b-7c1d-8a52-4f9e0b6d2c71", "at": "2026-11-14T09:30:00.123Z"}"#;
const MISSING: &str = r#"{"status": 404, "detail": "none", "error_code": "not_found"}"#;
const METHOD: &str = r#"{"status": 405, "detail": "none", "error_code": "method_not_allowed"}"#;

fn accepts(call: &str, status: u16, pairs: &[(&str, &str)], body: &str) {
    assert_eq!(check(call, status, pairs, body), Ok(()));
}

fn refuses(call: &str, status: u16, pairs: &[(&str, &str)], body: &str, because: &str) {
    let error = check(call, status, pairs, body).expect_err("an error");
    assert!(error.contains(because), "{error}");
}

#[test]
fn bodies() {
    accepts("GET /things/1?x=/y", 200, &[JSON], THING);
    refuses("GET /things/1", 200, &[JSON], &THING.replace("01a1", "nope"), "uuid");
    refuses("GET /things/1", 200, &[JSON], &THING.replace("T09", " at 09"), "date-time");
    refuses("GET /things/1", 200, &[JSON], &THING.replace('}', r#", "more": 1}"#), "more");
    refuses("GET /things/1", 200, &[JSON], "{", "not JSON");
    refuses("GET /things/1", 200, &[], THING, "content types: []");
    refuses("GET /things/1", 200, &[("content-type", "text/html")], THING, "text/html is not among");
    refuses("GET /things/1", 201, &[JSON], THING, "documents only [200]");
}

#[test]
fn head_response_matches_get_without_a_body() {
    accepts("HEAD /things/1", 200, &[JSON], "");
    refuses("HEAD /things/1", 200, &[JSON], THING, "HEAD has a body");
    refuses("HEAD /things/1", 200, &[("content-type", "text/plain")], "", "text/plain is not among");
}

#[test]
fn literal_segment_takes_precedence() {
    accepts("GET /things/all", 200, &[("content-type", "text/plain")], "one, two");
    refuses("GET /things/all", 200, &[JSON], THING, "not among");
    refuses("GET /things/", 200, &[JSON], THING, "the path is not documented");
}

#[test]
fn header_values() {
    accepts("DELETE /things/1", 204, &[("x-left", "3")], "");
    refuses("DELETE /things/1", 204, &[], "", "X-Left is missing");
    refuses("DELETE /things/1", 204, &[("x-left", "-1")], "", "minimum");
    refuses("DELETE /things/1", 204, &[("x-left", "few")], "", "integer");
    refuses("DELETE /things/1", 204, &[("x-left", "3")], "gone", "the body is not documented");
    accepts("DELETE /things/1", 404, &[PROBLEM, ID], MISSING);
    refuses("DELETE /things/1", 404, &[PROBLEM], MISSING, "X-Request-Id is missing");
}

#[test]
fn unknown_path_must_return_404() {
    accepts("PUT /nowhere", 404, &[PROBLEM, ID], MISSING);
    refuses("GET /nowhere", 404, &[JSON, ID], MISSING, "not among");
    refuses("GET /nowhere", 200, &[JSON], THING, "the path is not documented");
    refuses("GET /nowhere", 404, &[PROBLEM, ID], METHOD, "method_not_allowed");
    refuses("GET /nowhere", 404, &[PROBLEM, ID], &MISSING.replace("404", "410"), "the body has the status 410");
}

#[test]
fn unknown_method_must_return_405_with_allow() {
    let allow = ("allow", "GET, HEAD,DELETE");
    accepts("OPTIONS /things/1", 405, &[PROBLEM, ID, allow], METHOD);
    refuses("OPTIONS /things/1", 405, &[PROBLEM, ID, ("allow", "GET")], METHOD, "Allow is");
    refuses("OPTIONS /things/1", 200, &[], "", "does not document the method");
    refuses("GET /things/1", 405, &[PROBLEM, ID, allow], METHOD, "documents the method");
}

#[test]
fn routes_and_codes() {
    let routes = [("DELETE", "/things/{id}"), ("GET", "/things/all"), ("GET", "/things/{id}")];
    assert_eq!(contract().routes(), routes.map(|(method, path)| (method.to_owned(), path.to_owned())).into());
    assert_eq!(contract().error_codes(), ["not_found", "method_not_allowed"].map(str::to_owned).into());
}
