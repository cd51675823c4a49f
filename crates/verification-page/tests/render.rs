//! Renders every state of the page in every language.

#![expect(clippy::unwrap_used, reason = "tests panic on failure")]

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, prelude::BASE64_STANDARD};
use ringtrue_domain::{phone::Msisdn, reverse_sms::Platform, tenancy::Mode, verification::Method};
use ringtrue_verification_page::{
    Brand, Colour, Confirming, DevicePage, DeviceState, DisplayMode, EndMessage, Failure, Language, Notice, Page,
    Preview, QrSvg, Question, QuestionSubject, RenderedPage, SampleState, SmsToSend, State, WalletTiming,
    detect_platform,
};
use strum::VariantArray;

const MAX_BYTES: usize = 50 * 1024;
const MAX_DEVICE_BYTES: usize = 4 * 1024;
const PATH: &str = "/v/dG9rZW4";
const HOSTILE: &str = "</style><script>alert('1')</script>\" onload=\"x & Söhne";

fn receiver() -> Msisdn {
    Msisdn::parse("+99000000001", Mode::Sandbox).unwrap()
}

fn brand(name: &str) -> Brand<'_> {
    Brand {
        name,
        logo_url: Some("https://cdn.shop.example/logo.svg"),
        support_url: Some("https://shop.example/help?a=b&c=d"),
        colour: Colour::parse("#ffd500"),
    }
}

fn sms(receiver: &Msisdn, platform: Platform) -> State<'_> {
    let (body, has_arrived, came_from_other_number) = ("VERIFY 7K3QX9M20D", false, false);
    State::SendSms(SmsToSend { receiver, body, platform, has_arrived, came_from_other_number })
}

fn received(receiver: &Msisdn) -> State<'_> {
    let (body, platform, came_from_other_number) = ("VERIFY 7K3QX9M20D", Platform::Unknown, true);
    State::SendSms(SmsToSend { receiver, body, platform, has_arrived: true, came_from_other_number })
}

fn from_other_number(receiver: &Msisdn) -> State<'_> {
    let (body, platform, has_arrived) = ("VERIFY 7K3QX9M20D", Platform::Unknown, false);
    State::SendSms(SmsToSend { receiver, body, platform, has_arrived, came_from_other_number: true })
}

fn all_states(receiver: &Msisdn) -> Vec<State<'_>> {
    let return_to = Some("https://shop.example/back?verification_id=1&code=\"2\"");
    let failures = [Failure::Exhausted, Failure::GivenUp, Failure::WrongNumber, Failure::Cancelled];
    let ends = [return_to, None].into_iter().flat_map(move |return_to| {
        let failed = failures.map(|reason| State::Failed { reason, return_to });
        failed.into_iter().chain([
            State::Done { return_to },
            State::NotMatched { is_phone: true, return_to },
            State::NotMatched { is_phone: false, return_to },
            State::Expired { return_to },
        ])
    });
    let ask = |subject, method| State::Ask(Question { subject, method, asked_in: "send_sms" });
    let others = [
        State::Start { own_url: None },
        State::Start { own_url: Some("https://verify.example/v/dG9rZW4") },
        State::Silent,
        State::Leaving { location: "https://operator.example/authorize?a=b&c=d" },
        State::Stalled,
        State::Elsewhere,
        State::Confirming(Confirming::Elsewhere),
        State::Confirming(Confirming::Return("https://shop.example/back?code=\"2\"")),
        State::Confirming(Confirming::Finish),
        sms(receiver, Platform::Unknown),
        received(receiver),
        from_other_number(receiver),
        ask(QuestionSubject::GiveUp, Method::SecureSna),
        ask(QuestionSubject::GiveUp, Method::ReverseSms),
        ask(QuestionSubject::WrongNumber, Method::ReverseSms),
        State::SimSwap,
        State::Unknown,
        State::Busy,
        State::Unavailable,
        State::Refused,
    ];
    others.into_iter().chain(ends).collect()
}

fn page<'a>(state: State<'a>, name: &'a str, language: Language) -> Page<'a> {
    Page {
        language,
        brand: Some(brand(name)),
        number_ending: Some("6742"),
        is_sandbox: true,
        seconds_left: Some(600),
        path: PATH,
        query: "?lang=de&sim=%2B990123",
        display: DisplayMode::Tab,
        frame_origins: &[],
        end_message: None,
        has_redirect_url: true,
        has_other_method: true,
        wallet: None,
        notice: Some(Notice::AllowCookies),
        state,
    }
}

fn english(state: State<'_>) -> RenderedPage {
    page(state, "Acme", Language::English).render()
}

/// Returns the contents of the elements with this name that have no attributes.
fn contents<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    html.split(&open).skip(1).map(|rest| rest.split(&close).next().unwrap()).collect()
}

#[test]
fn every_state_renders_in_every_language() {
    let receiver = receiver();
    for language in Language::VARIANTS {
        for state in all_states(&receiver) {
            let name = state.name();
            let RenderedPage { html, .. } = page(state, "Acme", *language).render();
            let context = format!("{language:?} {name}");
            let root = format!("<html lang=\"{}\" dir=\"{}\">", language.tag(), language.direction());
            assert!(html.contains(&root), "{context}");
            assert!(html.len() < MAX_BYTES, "{context}: {} bytes", html.len());
            assert_eq!(contents(&html, "h1").len(), 1, "{context}");
            assert_eq!(html.matches("<main>").count(), 1, "{context}");
            let title = format!("{} – Acme", contents(&html, "h1")[0]);
            assert_eq!(contents(&html, "title"), [title.as_str()], "{context}");
            assert!(html.contains(&format!("<body data-state=\"{name}\"")), "{context}");
        }
    }
    assert_eq!(Language::VARIANTS.iter().filter(|language| language.direction() == "rtl").count(), 1);
}

#[test]
fn untrusted_text_is_escaped() {
    let receiver = receiver();
    for language in Language::VARIANTS {
        for state in all_states(&receiver) {
            let RenderedPage { html, .. } = page(state, HOSTILE, *language).render();
            assert_eq!(html.matches("<script").count(), 1, "{html}");
            assert_eq!(html.matches("<style").count(), 2, "{html}");
            assert!(!html.contains("\" onload") && !html.contains("code=\"2"), "{html}");
        }
    }
    let label = QrSvg::encode("text", "\"><script>").unwrap().to_string();
    assert!(!label.contains("<script"), "{label}");
}

#[test]
fn policy_permits_exactly_the_inline_style_and_script() {
    let receiver = receiver();
    for state in all_states(&receiver) {
        let RenderedPage { html, content_security_policy } = english(state);
        let hashes = |name| {
            let texts = contents(&html, name).into_iter();
            let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
            texts.map(|text| format!("'sha256-{}'", hash(text))).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            content_security_policy,
            format!(
                "default-src 'none'; style-src {}; script-src {}; img-src 'self' https://cdn.shop.example; \
                 connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
                hashes("style"),
                hashes("script")
            )
        );
        assert!(!html.contains(" style=") && !html.contains(" onclick="), "{html}");
    }
}

#[test]
fn only_an_own_or_https_logo_is_requested() {
    for logo_url in [None, Some("http://cdn.shop.example/logo.svg"), Some("javascript:alert(1)")] {
        let brand = Some(Brand { name: "Acme", logo_url, support_url: None, colour: None });
        let RenderedPage { html, content_security_policy } =
            Page { brand, ..page(State::SimSwap, "Acme", Language::English) }.render();
        assert!(!html.contains("<img") && content_security_policy.contains("img-src 'self';"), "{html}");
    }
    assert!(english(State::SimSwap).html.contains("<img src=\"https://cdn.shop.example/logo.svg\" alt=\"\""));
    let uploaded = "/logos/0199b0a8-0000-7000-8000-000000000000/abababababababababababababababab.png";
    let brand = Some(Brand { name: "Acme", logo_url: Some(uploaded), support_url: None, colour: None });
    let RenderedPage { html, content_security_policy } =
        Page { brand, ..page(State::SimSwap, "Acme", Language::English) }.render();
    assert!(html.contains(&format!("<img src=\"{uploaded}\" alt=\"\"")), "{html}");
    assert!(content_security_policy.contains("img-src 'self';"), "{content_security_policy}");
}

#[test]
fn unknown_link_names_no_brand() {
    let unknown =
        Page { brand: None, number_ending: None, is_sandbox: false, ..page(State::Unknown, "Acme", Language::English) };
    let RenderedPage { html, .. } = unknown.render();
    assert!(!html.contains("<header>") && !html.contains("Acme") && !html.contains("data-events"), "{html}");
    assert_eq!(contents(&html, "title"), ["This link isn’t valid"]);
}

#[test]
fn silent_check_starts_by_itself_or_by_a_form() {
    let refresh = "<meta http-equiv=\"refresh\" content=\"0;url=";
    let form = format!("<form method=\"post\" action=\"{PATH}/silent?lang=de&#38;sim=%2B990123\">");
    let silent = english(State::Silent).html;
    assert!(silent.contains(&format!("{refresh}{PATH}/silent?lang=de&#38;sim=%2B990123\">")), "{silent}");
    for state in [State::Start { own_url: None }, State::Stalled, State::Confirming(Confirming::Finish)] {
        let html = english(state).html;
        assert!(!html.contains("content=\"0;") && html.contains(&form), "{html}");
    }
}

/// The script announces its progress by the element with the role `status`.
#[test]
fn wallet_is_offered_in_every_language() {
    let wallet = Some(WalletTiming::Offered { starts: true, seconds_left: 90 });
    for language in Language::VARIANTS {
        for state in [State::Start { own_url: None }, State::Stalled] {
            let html = Page { wallet, ..page(state, "Acme", *language) }.render().html;
            assert!(html.len() < MAX_BYTES, "{language:?}: {} bytes", html.len());
            let section = html.split("<div id=\"wallet\" hidden>").nth(1).unwrap().split("</div>").next().unwrap();
            let status = section.split("<p role=\"status\" ").nth(1).unwrap();
            for text in ["data-busy=\"", "data-again=\""] {
                assert!(status.split(text).nth(1).unwrap().starts_with(char::is_alphabetic), "{section}");
            }
        }
    }
}

/// A browser that cannot parse an operator runs no line of the script. Chrome 80 and Safari 13.1 know `?.` and `??`.
#[test]
fn older_browsers_parse_the_script() {
    let html = english(State::SimSwap).html;
    let script = html.split("<script>").nth(1).unwrap();
    for operator in ["??=", "||=", "&&="] {
        assert!(!script.contains(operator), "{operator}");
    }
}

/// With JavaScript, the script opens the operator's URL and shows the other options after a delay. Without JavaScript,
/// the page shows them at once.
#[test]
fn page_that_leaves_has_a_way_out() {
    let leaving = english(State::Leaving { location: "https://operator.example/?a=b&c=d" }).html;
    assert!(leaving.contains("data-operator=\"https://operator.example/?a=b&#38;c=d\""), "{leaving}");
    let refresh = "<noscript><meta http-equiv=\"refresh\" content=\"0;url=https://operator.example/?a=b&#38;c=d\">";
    assert!(leaving.contains(refresh), "{leaving}");
    let way_out = leaving.split("<div id=\"stalled\">").nth(1).unwrap().split("</div>").next().unwrap();
    let next = format!(
        "action=\"{PATH}/next?lang=de&#38;sim=%2B990123\"><input type=\"hidden\" name=\"method\" value=\"secure_sna\">"
    );
    assert!(way_out.contains(&format!("action=\"{PATH}/silent?")) && way_out.contains(&next), "{way_out}");
}

#[test]
fn questions_carry_on_the_query() {
    let receiver = receiver();
    let html = english(sms(&receiver, Platform::Unknown)).html;
    for subject in ["give_up", "wrong_number"] {
        assert!(html.contains(&format!("href=\"{PATH}?lang=de&#38;sim=%2B990123&#38;ask={subject}\"")), "{html}");
    }
    let plain = Page { query: "", ..page(State::Stalled, "Acme", Language::English) }.render().html;
    assert!(plain.contains(&format!("href=\"{PATH}?ask=wrong_number\"")), "{plain}");
    for (has_other_method, count) in [(true, 2), (false, 1)] {
        let (subject, method) = (QuestionSubject::GiveUp, Method::ReverseSms);
        let state = State::Ask(Question { subject, method, asked_in: "send_sms" });
        let html = Page { has_other_method, ..page(state, "Acme", Language::English) }.render().html;
        assert_eq!(html.matches("<form").count(), count, "{html}");
        assert!(html.contains("name=\"reason\" value=\"give_up\"") && !html.contains("http-equiv"), "{html}");
    }
}

/// Giving up the last method ends the verification, so the page must ask for confirmation first.
#[test]
fn last_method_is_not_given_up_without_a_question() {
    let next = format!("action=\"{PATH}/next?");
    for state in
        [State::Start { own_url: None }, State::Leaving { location: "https://operator.example/" }, State::Stalled]
    {
        let html = english(state.clone()).html;
        assert!(html.contains(&next) && !html.contains("ask=give_up"), "{html}");
        let html = Page { has_other_method: false, ..page(state, "Acme", Language::English) }.render().html;
        assert!(!html.contains(&next) && !html.contains("another way"), "{html}");
        assert!(html.contains("&#38;ask=give_up\">Stop without confirming</a>"), "{html}");
    }
    let (subject, method) = (QuestionSubject::GiveUp, Method::SecureSna);
    let asked = State::Ask(Question { subject, method, asked_in: "stalled" });
    let html = Page { has_other_method: false, ..page(asked, "Acme", Language::English) }.render().html;
    assert_eq!(contents(&html, "h1"), ["Stop here?"]);
    assert!(!html.contains(&next) && html.contains("name=\"reason\" value=\"give_up\""), "{html}");
    let elsewhere = english(State::Confirming(Confirming::Elsewhere)).html;
    assert!(!elsewhere.contains("<form") && elsewhere.contains("Finish where you started."), "{elsewhere}");
}

#[test]
fn page_says_that_cookies_are_needed() {
    for (state, is_said) in [
        (State::Start { own_url: None }, true),
        (State::Stalled, true),
        (State::Elsewhere, true),
        (State::Leaving { location: "https://operator.example/" }, false),
        (State::SimSwap, false),
    ] {
        let html = english(state.clone()).html;
        assert_eq!(html.contains("<p role=\"alert\">This step needs a cookie"), is_said, "{html}");
        let html = Page { notice: None, ..page(state, "Acme", Language::English) }.render().html;
        assert!(!html.contains("cookie"), "{html}");
    }
}

#[test]
fn page_follows_the_state_with_and_without_script() {
    let receiver = receiver();
    for (state, refreshes) in [
        (State::Start { own_url: None }, false),
        (State::Stalled, false),
        (State::Elsewhere, true),
        (sms(&receiver, Platform::Unknown), true),
        (received(&receiver), true),
        (State::Confirming(Confirming::Elsewhere), true),
        (State::SimSwap, true),
    ] {
        let html = english(state).html;
        assert!(html.contains(&format!("data-events=\"{PATH}/events?")), "{html}");
        let refresh = format!("<noscript><meta http-equiv=\"refresh\" content=\"5;url={PATH}?");
        assert_eq!(html.contains(&refresh), refreshes, "{html}");
    }
    let silent = english(State::Silent).html;
    assert!(!silent.contains("data-events"), "it starts by itself: {silent}");
    let done = english(State::Done { return_to: Some("https://shop.example/?code=1") }).html;
    assert!(!done.contains("data-events"), "{done}");
    assert!(done.contains("<noscript><meta http-equiv=\"refresh\" content=\"2;url=https://shop.example/?code=1\">"));
    assert!(done.contains("data-return-to=\"https://shop.example/?code=1\""), "{done}");
    assert!(done.contains("<a class=\"button\" href=\"https://shop.example/?code=1\">Back to Acme</a>"), "{done}");
    let closed = english(State::Done { return_to: None }).html;
    assert!(closed.contains("You can close this page now.") && !closed.contains("http-equiv"), "{closed}");
    // After an unsuccessful end, the browser returns only when the user taps a link.
    let return_to = Some("https://shop.example/?error=1");
    let reason = Failure::Exhausted;
    let not_matched = State::NotMatched { is_phone: true, return_to };
    for state in [not_matched, State::Failed { reason, return_to }, State::Expired { return_to }] {
        let html = english(state).html;
        assert!(!html.contains("http-equiv") && !html.contains("data-return-to"), "{html}");
        assert!(html.contains("href=\"https://shop.example/?error=1\">Back to Acme</a>"), "{html}");
    }
}

#[test]
fn end_has_a_sign() {
    let return_to = None;
    for (state, sign) in [
        (State::Done { return_to }, Some("good")),
        (State::NotMatched { is_phone: true, return_to }, Some("bad")),
        (State::Failed { reason: Failure::Exhausted, return_to }, Some("bad")),
        (State::Failed { reason: Failure::GivenUp, return_to }, Some("over")),
        (State::Expired { return_to }, Some("over")),
        (State::Unavailable, Some("bad")),
        (State::SimSwap, None),
    ] {
        let html = english(state).html;
        let shown = html.split("<svg class=\"sign ").nth(1).map(|rest| rest.split('"').next().unwrap());
        assert_eq!(shown, sign, "{html}");
    }
}

#[test]
fn time_left_is_shown_near_the_end() {
    let receiver = receiver();
    for (state, seconds_left, shown) in [
        (sms(&receiver, Platform::Ios), Some(600), Some("data-seconds=\"600\" hidden>")),
        (sms(&receiver, Platform::Ios), Some(121), Some("data-seconds=\"121\" hidden>")),
        (sms(&receiver, Platform::Ios), Some(65), Some("data-seconds=\"65\">Time left: <span dir=\"ltr\">1:05</span>")),
        (State::Done { return_to: None }, Some(65), None),
        (State::Unknown, None, None),
    ] {
        let html = Page { seconds_left, ..page(state, "Acme", Language::English) }.render().html;
        assert_eq!(html.contains("id=\"time-left\""), shown.is_some(), "{html}");
        assert!(shown.is_none_or(|text| html.contains(text)), "{html}");
    }
}

#[test]
fn user_can_switch_the_language() {
    let html = english(State::Stalled).html;
    let links = html.matches("<li><a href=\"").count();
    assert_eq!(links, Language::VARIANTS.len() - 1, "{html}");
    let arabic = format!("<a href=\"{PATH}?lang=ar&#38;sim=%2B990123\" lang=\"ar\" dir=\"rtl\">العربية</a>");
    assert!(html.contains(&arabic) && html.contains("Language: English</summary>"), "{html}");
    // A browser that is about to leave must not follow a link instead.
    for state in [State::Silent, State::Leaving { location: "https://operator.example/" }] {
        assert!(!english(state).html.contains("<details>"));
    }
}

#[test]
fn page_links_to_the_support() {
    let link = "<a href=\"https://shop.example/help?a=b&#38;c=d\" target=\"_blank\" rel=\"noopener noreferrer\">Need help?</a>";
    for state in [State::Stalled, State::Done { return_to: None }, State::Expired { return_to: None }] {
        let html = english(state).html;
        assert!(html.contains(link), "{html}");
    }
}

/// On a computer, the style sheet shows the code and hides the button.
#[test]
fn phones_get_a_button_and_computers_a_code() {
    let receiver = receiver();
    for (platform, has_code) in [(Platform::Unknown, true), (Platform::Ios, false), (Platform::Android, false)] {
        let html = english(sms(&receiver, platform)).html;
        assert_eq!(html.contains("class=\"qr\""), has_code, "{html}");
        assert_eq!(html.contains("<ol>"), has_code, "{html}");
        assert_eq!(html.contains("<div class=\"phone\">"), has_code, "{html}");
        assert!(html.contains("Only send this text if you started this yourself."), "{html}");
    }
}

#[test]
fn handset_opens_the_company_in_another_tab() {
    let return_to = Some("https://shop.example/?code=1");
    let confirming = State::Confirming(Confirming::Return("https://shop.example/?code=1"));
    for state in [State::Done { return_to }, State::Expired { return_to }, confirming] {
        let html = Page { display: DisplayMode::Handset, ..page(state, "Acme", Language::English) }.render().html;
        let link = "<a class=\"button\" href=\"https://shop.example/?code=1\" target=\"_blank\" rel=\"noopener\">";
        assert!(html.contains(link) && !html.contains("data-return-to"), "{html}");
        assert!(!html.contains("content=\"2;url=https://shop.example/"), "{html}");
    }
}

const SHOP_MESSAGE: EndMessage<'_> =
    EndMessage { result: "verification_id=1&code=2", return_origin: Some("https://shop.example") };

fn shown_in(display: DisplayMode, state: State<'_>) -> Page<'_> {
    let end_message = state.is_final().then_some(SHOP_MESSAGE);
    Page { display, frame_origins: &["https://a.example"], end_message, ..page(state, "Acme", Language::English) }
}

#[test]
fn policy_permits_the_companys_frames() {
    let framed = shown_in(DisplayMode::Tab, State::SimSwap);
    let two = Page { frame_origins: &["https://a.example", "http://localhost:8080"], ..framed.clone() };
    for (page, ancestors) in [
        (framed, "frame-ancestors 'self' https://a.example"),
        (two, "frame-ancestors 'self' https://a.example http://localhost:8080"),
    ] {
        let policy = page.render().content_security_policy;
        assert!(policy.ends_with(ancestors), "{policy}");
    }
}

#[test]
fn messages_go_to_the_companys_origins_only() {
    let return_to = Some("https://shop.example/?code=2");
    let done = State::Done { return_to };
    for display in [DisplayMode::Popup, DisplayMode::Frame] {
        let html = shown_in(display, done.clone()).render().html;
        let message = "data-origins=\"https://a.example https://shop.example\" data-event=\"verified\" \
                       data-result=\"verification_id=1&#38;code=2\"";
        assert!(html.contains(message), "{html}");
        let failed = State::Failed { reason: Failure::GivenUp, return_to };
        let html = shown_in(display, failed).render().html;
        assert!(html.contains("data-event=\"failed\"") && !html.contains("data-return-to"), "{html}");
        let open = shown_in(display, State::SimSwap).render().html;
        assert!(open.contains("data-origins=\"https://a.example\"") && !open.contains("data-event="), "{open}");
        let nobody = Page { frame_origins: &[], end_message: None, ..shown_in(display, done.clone()) };
        assert!(!nobody.render().html.contains("data-origins"));
        let own = Page { frame_origins: &["https://shop.example"], ..shown_in(display, done.clone()) }.render().html;
        assert!(own.contains("data-origins=\"https://shop.example\""), "{own}");
    }
    for display in [DisplayMode::Tab, DisplayMode::Handset] {
        assert!(!shown_in(display, done.clone()).render().html.contains("data-origins"));
    }
}

/// Without a URL to return to, there is no link. In a pop-up window or frame, the script shows a button instead.
#[test]
fn end_without_a_link_has_a_button_for_the_script() {
    let button = "<p id=\"return\" hidden><button type=\"button\">Back to Acme</button></p>";
    for (display, has_button) in [(DisplayMode::Tab, false), (DisplayMode::Popup, true), (DisplayMode::Frame, true)] {
        let html = shown_in(display, State::Expired { return_to: None }).render().html;
        assert_eq!(html.contains(button), has_button, "{html}");
        let html = shown_in(display, State::Expired { return_to: Some("https://shop.example/") }).render().html;
        assert!(!html.contains(button) && html.contains("<p id=\"return\"><a class=\"button\" href="), "{html}");
    }
}

#[test]
fn frame_leaves_by_its_tab_only() {
    let link = "href=\"https://shop.example/?code=2\" target=\"_top\">";
    let return_to = Some("https://shop.example/?code=2");
    for state in [State::Done { return_to }, State::Expired { return_to }] {
        let html = shown_in(DisplayMode::Frame, state).render().html;
        assert!(html.contains(link) && !html.contains("data-return-to") && !html.contains("http-equiv"), "{html}");
    }
    for state in [State::Start { own_url: None }, State::Stalled, State::Confirming(Confirming::Finish)] {
        for (has_redirect_url, target) in [(true, "_top"), (false, "_blank")] {
            let page = Page { has_redirect_url, ..shown_in(DisplayMode::Frame, state.clone()) };
            let form = format!("/silent?lang=de&#38;sim=%2B990123\" target=\"{target}\">");
            assert!(page.render().html.contains(&form));
        }
        assert!(
            !shown_in(DisplayMode::Popup, state).render().html.contains("/silent?lang=de&#38;sim=%2B990123\" target")
        );
    }
}

/// Only a pop-up window shows the page after the return from the operator. A tab goes to the company directly.
#[test]
fn popup_forwards_a_return_from_the_operator() {
    let confirming = State::Confirming(Confirming::Return("https://shop.example/?code=2"));
    for (display, forwards) in [(DisplayMode::Tab, false), (DisplayMode::Popup, true), (DisplayMode::Frame, false)] {
        let html = shown_in(display, confirming.clone()).render().html;
        assert_eq!(html.contains("data-return-to=\"https://shop.example/?code=2\""), forwards, "{html}");
    }
}

#[test]
fn device_page_is_small_and_in_every_language() {
    let states = [
        DeviceState::Code("a\"b"),
        DeviceState::NotMobile,
        DeviceState::Failed,
        DeviceState::Expired,
        DeviceState::Used,
        DeviceState::OtherBrowser,
        DeviceState::Unknown,
        DeviceState::Busy,
        DeviceState::Unavailable,
    ];
    for language in Language::VARIANTS.iter().copied() {
        for state in states {
            let (brand, error_code) = (Some(brand(HOSTILE)), Some("<not_mobile_ip>"));
            let RenderedPage { html, content_security_policy } =
                DevicePage { language, brand, state, error_code }.render();
            assert!(html.contains(&format!("<html lang=\"{}\" dir=\"{}\">", language.tag(), language.direction())));
            assert!(html.len() < MAX_DEVICE_BYTES, "{language:?} {state:?}: {} bytes", html.len());
            assert!(!html.contains("<script") && !html.contains("\" onload") && !html.contains("{ $"), "{html}");
            assert_eq!(html.contains(">a&#34;b</code>"), matches!(state, DeviceState::Code(_)), "{html}");
            assert!(html.contains("&#60;not_mobile_ip&#62;"), "{html}");
            let styles = contents(&html, "style").into_iter();
            let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
            let styles = styles.map(|text| format!("'sha256-{}'", hash(text))).collect::<Vec<_>>().join(" ");
            let policy = format!("default-src 'none'; style-src {styles}; script-src 'none'; img-src 'self' https://");
            assert!(content_security_policy.starts_with(&policy), "{content_security_policy}");
        }
    }
    let page = DevicePage { language: Language::German, brand: None, state: DeviceState::NotMobile, error_code: None };
    let html = page.render().html;
    assert_eq!(contents(&html, "h1"), ["Dieses Telefon nutzt keine mobilen Daten"]);
    assert!(!html.contains("<header>") && !html.contains("<code"), "{html}");
}

#[test]
fn sms_link_has_the_form_of_the_platform() {
    const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148";
    const PIXEL: &str = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/130.0.0.0 Mobile";
    const MAC: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15";
    let receiver = receiver();
    for (user_agent, separator) in [(IPHONE, "&#38;"), (PIXEL, "?"), (MAC, "?&#38;"), ("", "?&#38;")] {
        let html = english(sms(&receiver, detect_platform(user_agent))).html;
        let link = format!("href=\"sms:+99000000001{separator}body=VERIFY%207K3QX9M20D\"");
        assert!(html.contains(&link), "{user_agent}: {html}");
        assert!(html.contains(">+99000000001</code>") && html.contains(">VERIFY 7K3QX9M20D</code>"), "{html}");
    }
}

#[test]
fn qr_code_contains_the_sms_or_the_page() {
    let receiver = receiver();
    let html = english(sms(&receiver, Platform::Unknown)).html;
    assert_eq!(decode_qr_code(&html), "SMSTO:+99000000001:VERIFY 7K3QX9M20D");
    let url = "https://eu.verify.example/v/dG9rZW4?sim=%2B990123";
    assert_eq!(decode_qr_code(&english(State::Start { own_url: Some(url) }).html), url);
}

fn decode_qr_code(html: &str) -> String {
    const SCALE: usize = 4;
    let side: usize = html.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let path = html.split("class=\"dark\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut dark = vec![vec![false; side]; side];
    for run in path.split('M').filter(|run| !run.is_empty()) {
        let (x, rest) = run.split_once(' ').unwrap();
        let (y, rest) = rest.split_once('h').unwrap();
        let x: usize = x.parse().unwrap();
        let length: usize = rest.split('v').next().unwrap().parse().unwrap();
        dark[y.parse::<usize>().unwrap()][x..x + length].fill(true);
    }
    let pixels = side * SCALE;
    let mut image =
        rqrr::PreparedImage::prepare_from_greyscale(
            pixels,
            pixels,
            |x, y| {
                if dark[y / SCALE][x / SCALE] { 0 } else { 255 }
            },
        );
    image.detect_grids()[0].decode().unwrap().1
}

#[test]
fn accent_colour_is_readable_in_both_schemes() {
    let html = english(State::Stalled).html;
    let style = contents(&html, "style")[1];
    assert!(style.starts_with(":root{--accent:#ffd500;--on-accent:#000000;--link:#"), "{style}");
    assert!(!style.contains("--link:#ffd500}}@media") && style.ends_with("{:root{--link:#ffd500}}"), "{style}");
}

fn preview(state: SampleState, language: Language, platform: Platform) -> RenderedPage {
    let brand = Some(brand(HOSTILE));
    Preview { state, language, brand, platform, is_sandbox: true, seconds_left: None }.render()
}

/// Returns the values of all attributes with this name.
fn attributes<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let mark = format!(" {name}=\"");
    html.split(&mark).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn preview_does_nothing_and_leads_nowhere() {
    for language in Language::VARIANTS {
        for state in SampleState::VARIANTS {
            for platform in [Platform::Unknown, Platform::Android] {
                let RenderedPage { html, content_security_policy } = preview(*state, *language, platform);
                let context = format!("{language:?} {state:?}: {html}");
                assert_eq!(contents(&html, "h1").len(), 1, "{context}");
                for part in ["<script", "refresh", "data-return-to", "data-events", "data-poll", "/help"] {
                    assert!(!html.contains(part), "{part} in {context}");
                }
                let targets = [attributes(&html, "action"), attributes(&html, "href")].concat();
                for target in targets.into_iter().filter(|target| *target != "/assets/icon.svg") {
                    assert!(target.starts_with('#'), "{target} in {context}");
                }
                let controls = ["<a", "<button"]
                    .map(|tag| html.matches(&format!("{tag} ")).count() + html.matches(&format!("{tag}>")).count());
                let removed = html.matches(" tabindex=\"-1\"").count();
                assert_eq!(removed, controls.iter().sum::<usize>(), "{context}");
                assert!(content_security_policy.contains("script-src 'none';"), "{content_security_policy}");
                let end = "frame-ancestors 'self'; sandbox";
                assert!(content_security_policy.ends_with(end), "{content_security_policy}");
            }
        }
    }
}

#[test]
fn preview_shows_the_page_of_a_phone() {
    for state in [SampleState::Start, SampleState::SendSms, SampleState::SmsReceived] {
        let html = preview(state, Language::English, Platform::Android).html;
        assert!(!html.contains("class=\"qr\"") && !html.contains("computer\""), "{html}");
        assert!(preview(state, Language::English, Platform::Unknown).html.contains("class=\"qr\""));
    }
    let sms = preview(SampleState::SendSms, Language::English, Platform::Android).html;
    // On phones, the script shows these buttons.
    assert!(sms.contains(" class=\"copy\" data-copy=\"body\">"), "{sms}");
}
