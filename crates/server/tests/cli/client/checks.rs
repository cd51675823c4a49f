//! Checks of every product and eligibility, in every output format.

use serde_json::json;

use super::{MATCHING, OTHER, TestClient, field, text};

#[test]
fn create_prints_instructions() {
    let client = TestClient::signed_in();
    let sms = client.run("reverse-sms create +990123456700 --reference-id order-1").expect_code(0);
    let page = sms.text();
    for part in [
        "CHECK ID",
        "ACCEPTED",
        "order-1",
        "EXPECTED SMS BODY      VERIFY ",
        "sms:+",
        "?body=VERIFY%20",
        "&body=VERIFY%20",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let instructions = sms.errors();
    assert!(
        instructions.contains("must text `VERIFY ") && instructions.contains("ringtrue trigger "),
        "{instructions}"
    );

    for (line, scope) in [("secure-sna create +990123456700", "secure-sna"), ("discovery create", "discovery")] {
        let done = client.run(line).expect_code(0);
        assert!(done.text().contains("/redirect?t="), "{}", done.text());
        assert!(done.errors().contains(&format!("ringtrue {scope} watch ")), "{}", done.errors());
    }
    let json = client.json("reverse-sms create +990123456700");
    assert!(text(&json, "android_link").starts_with("sms:+") && json["ttl"].is_u64());
}

#[test]
fn checks_are_printed_in_every_format() {
    let client = TestClient::signed_in();
    for (product, create, member) in [
        ("reverse-sms", format!("reverse-sms create {MATCHING}"), "status"),
        ("secure-sna", format!("secure-sna create {MATCHING}"), "status"),
        ("discovery", "discovery create".to_owned(), "status"),
        ("sim-swap", format!("sim-swap create {OTHER} --period 2000"), "no_sim_change"),
    ] {
        let created = client.json(&format!("{create} --reference-id r1"));
        let id = text(&created, "check_id");
        let got = client.json(&format!("{product} get {id}"));
        for name in ["check_id", "reference_id", member] {
            assert_eq!(got[name], created[name], "{product} {name}");
        }
        assert_eq!(client.json(&format!("{product} list")), json!([got]), "{product}");
        let rows = client.csv(&format!("{product} list"));
        assert_eq!((rows.len(), field(&rows[0], "check_id"), field(&rows[0], "reference_id")), (1, id, "r1"));
        assert_eq!(field(&client.csv(&format!("{product} get {id}"))[0], "check_id"), id);
        for line in [format!("{product} get {id}"), format!("{product} list")] {
            let table = client.run(&line).expect_code(0).text();
            assert!(table.starts_with("CHECK ID ") && table.contains(id), "{table}");
        }
    }
    let swapped = client.json("sim-swap list");
    assert_eq!((&swapped[0]["no_sim_change"], &swapped[0]["sim_change_within"]), (&json!(false), &json!(1440)));
}

/// References are untrusted input: spreadsheets must not run them as formulas, nor terminals as control sequences.
#[test]
fn references_are_neutralised_in_csv_and_tables() {
    let client = TestClient::signed_in();
    let formula = "=HYPERLINK(\"x\")";
    let created = client.json(&format!("reverse-sms create +990123456700 --reference-id {formula}"));
    assert_eq!(text(&created, "reference_id"), formula);
    let list = client.run("reverse-sms list --output csv").expect_code(0).text();
    assert!(list.contains(",\"'=HYPERLINK(\"\"x\"\")\","), "{list}");
    client.run("reverse-sms create +990123456700 --reference-id \u{1b}]0;\u{202e}x\u{7}").expect_code(0);
    for output in ["table", "csv"] {
        let list = client.run(&format!("reverse-sms list --output {output}")).expect_code(0).text();
        assert!(list.contains("\\u{1b}]0;") && !list.contains(['\u{1b}', '\u{7}']), "{list}");
    }
}

#[test]
fn lists_are_filtered_and_paged() {
    let client = TestClient::signed_in();
    for number in 0..5 {
        client.run(&format!("reverse-sms create +99012345678{number} --reference-id r{number}")).expect_code(0);
    }
    let references = |line: &str| {
        let found = client.json(line);
        found.as_array().unwrap().iter().map(|check| text(check, "reference_id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(references("reverse-sms list --size 2"), ["r4", "r3"]);
    assert_eq!(references("reverse-sms list --size 2 --page 3"), ["r0"]);
    assert_eq!(references("reverse-sms list --size 2 --page 4"), [""; 0]);
    assert_eq!(references("reverse-sms list --search reference_id=in=(r1,r2)"), ["r2", "r1"]);
    assert_eq!(references("reverse-sms list --all"), ["r4", "r3", "r2", "r1", "r0"]);
    assert_eq!(client.run("reverse-sms list --all").expect_code(0).errors(), "", "progress is for terminals");
    let page = client.run("reverse-sms list --size 2").expect_code(0).errors();
    assert_eq!(page, "Page 1 of 3; 5 in total.\n");
    assert_eq!(client.run("discovery list").expect_code(0).errors(), "No results found.\n");
}

#[test]
fn api_errors_show_code_and_documentation() {
    let client = TestClient::signed_in();
    let unknown = "0199b0a8-0000-7000-8000-000000000000";
    for (line, code) in [
        ("reverse-sms create +44".to_owned(), "phone_number_invalid"),
        ("reverse-sms create +990123456797".to_owned(), "mno_not_supported"),
        (format!("secure-sna get {unknown}"), "check_not_found"),
        (format!("discovery redeem {unknown} code"), "check_not_found"),
        ("sim-swap create +990123456700 --period 1".to_owned(), "period_invalid"),
        ("reverse-sms list --search status==".to_owned(), "search_invalid"),
        ("eligibility ip 198.51.100.1".to_owned(), "not_mobile_ip"),
        ("eligibility number 990123456700".to_owned(), "phone_number_invalid"),
    ] {
        let refused = client.run(&line).expect_code(1).errors();
        assert!(refused.contains(&format!("({code})")) && refused.contains(&format!("/errors/{code}")), "{refused}");
    }
    // For errors that may disappear later, the exit code is 5.
    let later = client.run("reverse-sms create +990123456793").expect_code(5).errors();
    assert!(later.contains("(lookup_unavailable)") && later.contains("Try again in "), "{later}");
}

#[test]
fn idempotency_key_creates_one_check() {
    let client = TestClient::signed_in();
    let create = format!("reverse-sms create {MATCHING} --idempotency-key once");
    assert_eq!(client.json(&create), client.json(&create));
    let other = client.run(&format!("reverse-sms create {OTHER} --idempotency-key once")).expect_code(1).errors();
    assert!(other.contains("idempotency_key_reused"), "{other}");
}

#[test]
fn number_is_read_from_standard_input() {
    let client = TestClient::signed_in();
    client.pipe("reverse-sms create -", &format!("{MATCHING}\n")).expect_code(0);
    let eligible = client.pipe("eligibility number - --output json", MATCHING).json();
    assert_eq!(eligible["network"]["dialing_code"], "990");
}

#[test]
fn eligibility_is_printed_in_every_format() {
    let client = TestClient::signed_in();
    for line in [format!("eligibility number {MATCHING}"), "eligibility ip 203.0.113.1".to_owned()] {
        let found = client.json(&line);
        assert_eq!(found["products"].as_array().unwrap().len(), 4, "{found}");
        let table = client.run(&line).expect_code(0).text();
        assert!(table.contains("secure_sna,sim_swap,reverse_sms,discovery"), "{table}");
        let row = &client.csv(&line)[0];
        assert_eq!(field(row, "products"), "secure_sna sim_swap reverse_sms discovery");
        assert_eq!(field(row, "network_id"), text(&found["network"], "network_id"));
    }
}
