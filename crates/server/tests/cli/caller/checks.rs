//! Checks of every product, and eligibility, in every form of output.

use serde_json::json;

use super::{MATCHING, OTHER, World, field, text};

#[test]
fn creating_says_what_the_user_must_do() {
    let world = World::signed_in();
    let sms = world.run("reverse-sms create +990123456700 --reference-id order-1").expect_code(0);
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
    let advice = sms.errors();
    assert!(advice.contains("must text `VERIFY ") && advice.contains("ringtrue trigger "), "{advice}");

    for (line, scope) in [("secure-sna create +990123456700", "secure-sna"), ("discovery create", "discovery")] {
        let done = world.run(line).expect_code(0);
        assert!(done.text().contains("/redirect?t="), "{}", done.text());
        assert!(done.errors().contains(&format!("ringtrue {scope} watch ")), "{}", done.errors());
    }
    let programs = world.json("reverse-sms create +990123456700");
    assert!(text(&programs, "android_link").starts_with("sms:+") && programs["ttl"].is_u64());
}

#[test]
fn checks_are_read_in_every_form() {
    let world = World::signed_in();
    for (product, create, member) in [
        ("reverse-sms", format!("reverse-sms create {MATCHING}"), "status"),
        ("secure-sna", format!("secure-sna create {MATCHING}"), "status"),
        ("discovery", "discovery create".to_owned(), "status"),
        ("sim-swap", format!("sim-swap create {OTHER} --period 2000"), "no_sim_change"),
    ] {
        let created = world.json(&format!("{create} --reference-id r1"));
        let id = text(&created, "check_id");
        let got = world.json(&format!("{product} get {id}"));
        for name in ["check_id", "reference_id", member] {
            assert_eq!(got[name], created[name], "{product} {name}");
        }
        assert_eq!(world.json(&format!("{product} list")), json!([got]), "{product}");
        let rows = world.csv(&format!("{product} list"));
        assert_eq!((rows.len(), field(&rows[0], "check_id"), field(&rows[0], "reference_id")), (1, id, "r1"));
        assert_eq!(field(&world.csv(&format!("{product} get {id}"))[0], "check_id"), id);
        for line in [format!("{product} get {id}"), format!("{product} list")] {
            let table = world.run(&line).expect_code(0).text();
            assert!(table.starts_with("CHECK ID ") && table.contains(id), "{table}");
        }
    }
    let swapped = world.json("sim-swap list");
    assert_eq!((&swapped[0]["no_sim_change"], &swapped[0]["sim_change_within"]), (&json!(false), &json!(1440)));
}

/// Whoever chooses a reference is not who opens the list.
#[test]
fn a_reference_is_no_formula_in_a_spreadsheet() {
    let world = World::signed_in();
    let formula = "=HYPERLINK(\"x\")";
    let created = world.json(&format!("reverse-sms create +990123456700 --reference-id {formula}"));
    assert_eq!(text(&created, "reference_id"), formula);
    let list = world.run("reverse-sms list --output csv").expect_code(0).text();
    assert!(list.contains(",\"'=HYPERLINK(\"\"x\"\")\","), "{list}");
    world.run("reverse-sms create +990123456700 --reference-id \u{1b}]0;\u{202e}x\u{7}").expect_code(0);
    for output in ["table", "csv"] {
        let list = world.run(&format!("reverse-sms list --output {output}")).expect_code(0).text();
        assert!(list.contains("\\u{1b}]0;") && !list.contains(['\u{1b}', '\u{7}']), "{list}");
    }
}

#[test]
fn lists_are_searched_and_turned_over() {
    let world = World::signed_in();
    for number in 0..5 {
        world.run(&format!("reverse-sms create +99012345678{number} --reference-id r{number}")).expect_code(0);
    }
    let references = |line: &str| {
        let found = world.json(line);
        found.as_array().unwrap().iter().map(|check| text(check, "reference_id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(references("reverse-sms list --size 2"), ["r4", "r3"]);
    assert_eq!(references("reverse-sms list --size 2 --page 3"), ["r0"]);
    assert_eq!(references("reverse-sms list --size 2 --page 4"), [""; 0]);
    assert_eq!(references("reverse-sms list --search reference_id=in=(r1,r2)"), ["r2", "r1"]);
    assert_eq!(references("reverse-sms list --all"), ["r4", "r3", "r2", "r1", "r0"]);
    assert_eq!(world.run("reverse-sms list --all").expect_code(0).errors(), "", "progress is for terminals");
    let page = world.run("reverse-sms list --size 2").expect_code(0).errors();
    assert_eq!(page, "Page 1 of 3; 5 in all.\n");
    assert_eq!(world.run("discovery list").expect_code(0).errors(), "There is nothing.\n");
}

#[test]
fn a_refusal_shows_what_the_server_says_of_it() {
    let world = World::signed_in();
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
        let refused = world.run(&line).expect_code(1).errors();
        assert!(refused.contains(&format!("({code})")) && refused.contains(&format!("/errors/{code}")), "{refused}");
    }
    // What may go well a little later has a code of its own.
    let later = world.run("reverse-sms create +990123456793").expect_code(5).errors();
    assert!(later.contains("(lookup_unavailable)") && later.contains("Try again in "), "{later}");
}

#[test]
fn the_same_key_creates_one_check() {
    let world = World::signed_in();
    let create = format!("reverse-sms create {MATCHING} --idempotency-key once");
    assert_eq!(world.json(&create), world.json(&create));
    let other = world.run(&format!("reverse-sms create {OTHER} --idempotency-key once")).expect_code(1).errors();
    assert!(other.contains("idempotency_key_reused"), "{other}");
}

#[test]
fn a_number_may_come_from_standard_input() {
    let world = World::signed_in();
    world.pipe("reverse-sms create -", &format!("{MATCHING}\n")).expect_code(0);
    let eligible = world.pipe("eligibility number - --output json", MATCHING).json();
    assert_eq!(eligible["network"]["dialing_code"], "990");
}

#[test]
fn eligibility_in_every_form() {
    let world = World::signed_in();
    for line in [format!("eligibility number {MATCHING}"), "eligibility ip 203.0.113.1".to_owned()] {
        let found = world.json(&line);
        assert_eq!(found["products"].as_array().unwrap().len(), 4, "{found}");
        let table = world.run(&line).expect_code(0).text();
        assert!(table.contains("secure_sna,sim_swap,reverse_sms,discovery"), "{table}");
        let row = &world.csv(&line)[0];
        assert_eq!(field(row, "products"), "secure_sna sim_swap reverse_sms discovery");
        assert_eq!(field(row, "network_id"), text(&found["network"], "network_id"));
    }
}
