//! Renders every state of the sign-in page in every language.

#![expect(clippy::unwrap_used, reason = "tests panic on failure")]

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, prelude::BASE64_STANDARD};
use ringtrue_verification_page::{
    Brand, Colour, Language, NumberProblem, RenderedPage, SignInEnd, SignInPage, SignInState,
};
use strum::VariantArray;

const MAX_BYTES: usize = 50 * 1024;
const PATH: &str = "/signin/dG9rZW4";
const HOSTILE: &str = "</style><script>alert('1')</script>\" onload=\"x & Söhne";
const PROBLEMS: [NumberProblem; 5] = [
    NumberProblem::Invalid,
    NumberProblem::NotSupported,
    NumberProblem::TooManyAttempts,
    NumberProblem::TryAgainLater,
    NumberProblem::MissingCountry,
];
const ENDS: [SignInEnd; 5] =
    [SignInEnd::Cancelled, SignInEnd::Expired, SignInEnd::NotVerified, SignInEnd::Used, SignInEnd::Unavailable];
const ENTRY: SignInState<'_> = SignInState::AskNumber {
    typed: "",
    country: Some("GB"),
    problem: None,
    can_discover: false,
    starts_discovery: false,
};

fn with_problem(problem: NumberProblem) -> SignInState<'static> {
    SignInState::AskNumber {
        typed: "07700",
        country: None,
        problem: Some(problem),
        can_discover: false,
        starts_discovery: false,
    }
}

fn all_states(text: &str) -> Vec<SignInState<'_>> {
    let return_to = Some("https://app.example/callback?error=access_denied&state=\"2\"");
    let problems = [None].into_iter().chain(PROBLEMS.map(Some));
    let entries = problems.map(|problem| SignInState::AskNumber {
        typed: text,
        country: Some(text).filter(|_| problem.is_some()),
        problem,
        can_discover: problem.is_none(),
        starts_discovery: false,
    });
    let ends =
        ENDS.into_iter().flat_map(|reason| [return_to, None].map(|return_to| SignInState::Ended { reason, return_to }));
    let others = [
        SignInState::Leaving { location: "https://operator.example/authorize?a=b&c=d" },
        SignInState::Stalled,
        SignInState::OtherBrowser { has_ended: false },
        SignInState::OtherBrowser { has_ended: true },
        SignInState::BadRequest { detail: text },
        SignInState::Unknown,
        SignInState::Busy,
        SignInState::Unavailable,
        SignInState::Refused,
    ];
    entries.chain(ends).chain(others).collect()
}

fn page<'a>(state: SignInState<'a>, name: &'a str, language: Language) -> SignInPage<'a> {
    let brand = Brand {
        name,
        logo_url: Some("https://cdn.shop.example/logo.svg"),
        support_url: Some("https://shop.example/help?a=b&c=d"),
        colour: Colour::parse("#ffd500"),
    };
    SignInPage {
        language,
        brand: Some(brand),
        is_sandbox: false,
        path: PATH,
        query: "?lang=de",
        redirect_uri: Some("https://app.example/callback"),
        state,
    }
}

fn english(state: SignInState<'_>) -> String {
    page(state, "Acme", Language::English).render().html
}

/// Returns the contents of the elements with this name that have no attributes.
fn contents<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    html.split(&open).skip(1).map(|rest| rest.split(&close).next().unwrap()).collect()
}

/// Returns the element with this id, without its content.
fn element<'h>(html: &'h str, id: &str) -> &'h str {
    let id = html.find(&format!(" id=\"{id}\"")).unwrap();
    let start = html[..id].rfind('<').unwrap();
    html[start..].split('>').next().unwrap()
}

#[test]
fn every_state_renders_in_every_language() {
    for language in Language::VARIANTS.iter().copied() {
        for state in all_states("07700 900123") {
            let html = page(state, "Acme", language).render().html;
            let context = format!("{language:?} {state:?}");
            let root = format!("<html lang=\"{}\" dir=\"{}\">", language.tag(), language.direction());
            assert!(html.contains(&root), "{context}");
            assert!(html.len() < MAX_BYTES, "{context}: {} bytes", html.len());
            assert_eq!((contents(&html, "h1").len(), html.matches("<main>").count()), (1, 1), "{context}");
            assert!(contents(&html, "title")[0].starts_with(contents(&html, "h1")[0]), "{context}");
            assert_eq!(contents(&html, "title")[0].matches("Acme").count(), 1, "{context}");
            // A message without one of its variables is rendered as its id.
            assert!(!html.contains(">sign-in-") && !html.contains("{ $"), "{context}: {html}");
        }
    }
}

#[test]
fn untrusted_text_is_escaped() {
    for language in [Language::English, Language::Arabic] {
        for state in all_states(HOSTILE) {
            let html = page(state, HOSTILE, language).render().html;
            let has_script = matches!(state, SignInState::AskNumber { .. } | SignInState::Leaving { .. });
            assert_eq!(html.matches("<script").count(), usize::from(has_script), "{html}");
            assert_eq!(html.matches("<style").count(), 3, "{html}");
            assert!(!html.contains("\" onload") && !html.contains("state=\"2"), "{html}");
        }
    }
}

#[test]
fn policy_permits_own_code_and_the_way_back() {
    for state in all_states("") {
        let RenderedPage { html, content_security_policy } = page(state, "Acme", Language::English).render();
        let hashes = |name| {
            let texts = contents(&html, name).into_iter();
            let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
            let hashes = texts.map(|text| format!("'sha256-{}'", hash(text))).collect::<Vec<_>>().join(" ");
            if hashes.is_empty() { "'none'".to_owned() } else { hashes }
        };
        assert_eq!(
            content_security_policy,
            format!(
                "default-src 'none'; style-src {}; script-src {}; img-src 'self' https://cdn.shop.example; \
                 form-action 'self' https://app.example; base-uri 'none'; frame-ancestors 'none'",
                hashes("style"),
                hashes("script")
            )
        );
        assert!(!html.contains(" style=") && !html.contains(" onclick="), "{html}");
    }
    let page = SignInPage { redirect_uri: None, ..page(ENTRY, "Acme", Language::English) };
    let policy = page.render().content_security_policy;
    assert!(policy.contains("form-action 'self';"), "{policy}");
}

#[test]
fn entry_asks_for_number_and_country() {
    let html = english(ENTRY);
    assert_eq!(contents(&html, "h1"), ["Sign in to Acme"]);
    assert_eq!(contents(&html, "title"), ["Sign in to Acme"]);
    assert!(html.contains(&format!("<form method=\"post\" action=\"{PATH}/number?lang=de\">")), "{html}");
    assert!(html.contains(&format!("<form method=\"post\" action=\"{PATH}/cancel?lang=de\">")), "{html}");
    assert!(html.contains("<label for=\"country\">") && html.contains("<label for=\"number\">"), "{html}");
    let number = element(&html, "number");
    for part in [
        "name=\"phone_number\"",
        "type=\"tel\"",
        "inputmode=\"tel\"",
        "autocomplete=\"tel\"",
        "dir=\"ltr\"",
        "value=\"\"",
        "aria-describedby=\"hint privacy\"",
        " required",
        " autofocus",
    ] {
        assert!(number.contains(part), "{part} is not in {number}");
    }
    assert!(!html.contains("aria-invalid=") && !html.contains("id=\"problem\""), "{html}");
    assert!(html.contains("We only use your number to sign you in to Acme."), "{html}");
}

#[test]
fn country_is_selected_or_chosen() {
    for (country, selected, has_choice) in
        [(Some("GB"), "GB", false), (None, "", true), (Some("XX"), "", true), (Some("gb"), "", true)]
    {
        let html = english(SignInState::AskNumber {
            typed: "",
            country,
            problem: None,
            can_discover: false,
            starts_discovery: false,
        });
        let chosen: Vec<_> = html.split("<option ").filter(|option| option.contains(" selected>")).collect();
        assert_eq!(chosen.len(), 1, "{country:?}");
        assert!(chosen[0].starts_with(&format!("value=\"{selected}\"")), "{country:?}: {}", chosen[0]);
        assert_eq!(html.contains("<option value=\"\" lang=\"en\" selected>Choose…</option>"), has_choice);
    }
    let html = english(ENTRY);
    for option in [
        "<option value=\"US\" data-code=\"1\" data-main>United States (+1)</option>",
        "<option value=\"CA\" data-code=\"1\">Canada (+1)</option>",
        "<option value=\"GB\" data-code=\"44\" data-main selected>United Kingdom (+44)</option>",
        "<option value=\"XK\" data-code=\"383\" data-main>Kosovo (+383)</option>",
    ] {
        assert!(html.contains(option), "{option} is not in {html}");
    }
    // The names are English until the script has translated them.
    let arabic = page(ENTRY, "Acme", Language::Arabic).render().html;
    assert!(element(&arabic, "country").contains(" lang=\"en\" dir=\"ltr\""), "{arabic}");
    assert!(!element(&html, "country").contains(" lang="), "{html}");
}

#[test]
fn problem_is_beside_its_field() {
    for problem in PROBLEMS {
        let html = english(with_problem(problem));
        let (number, country) = (element(&html, "number"), element(&html, "country"));
        let is_country = problem == NumberProblem::MissingCountry;
        assert_eq!(html.matches(" autofocus").count(), 1, "{html}");
        assert_eq!(country.contains("autofocus"), is_country, "{html}");
        assert_eq!(country.contains("aria-invalid=\"true\" aria-describedby=\"problem\""), is_country, "{html}");
        assert_eq!(number.contains("aria-describedby=\"problem hint privacy\""), !is_country, "{html}");
        let is_number = !is_country && problem != NumberProblem::TryAgainLater;
        assert_eq!(number.contains("aria-invalid=\"true\""), is_number, "{html}");
        assert!(number.contains("value=\"07700\""), "{number}");
        assert_eq!(html.matches("<p id=\"problem\" class=\"problem\" role=\"alert\">").count(), 1, "{html}");
        let message = html.find("id=\"problem\"").unwrap();
        let (field, next) = if is_country { ("id=\"country\"", "id=\"number\"") } else { ("id=\"number\"", "<button") };
        let end =
            html[html.find("id=\"country\"").unwrap()..].find(next).unwrap() + html.find("id=\"country\"").unwrap();
        assert!(html.find(field).unwrap() < message && message < end, "{problem:?}: {html}");
    }
}

#[test]
fn sandbox_names_a_simulated_number() {
    let sandbox = SignInPage { is_sandbox: true, ..page(ENTRY, "Acme", Language::English) }.render().html;
    assert!(sandbox.contains(
        "<p id=\"hint\" class=\"quiet\">Use a simulated number, such as +990\u{a0}123\u{a0}456\u{a0}700</p>"
    ));
    assert!(sandbox.contains("<p>Test mode: simulated phone numbers only</p>"), "{sandbox}");
    let live = english(ENTRY);
    assert!(!live.contains("+990") && !live.contains("Test mode"), "{live}");
}

#[test]
fn discovery_is_offered_where_it_works() {
    let form = format!("<form method=\"post\" action=\"{PATH}/discover?lang=de\">");
    for can_discover in [true, false] {
        let html = english(SignInState::AskNumber {
            typed: "",
            country: None,
            problem: None,
            can_discover,
            starts_discovery: false,
        });
        assert_eq!(html.contains(&form), can_discover, "{html}");
    }
}

/// With JavaScript, the script opens the operator's URL and shows the other options after a delay. Without JavaScript,
/// the page shows them at once.
#[test]
fn page_that_leaves_has_a_way_out() {
    let leaving = english(SignInState::Leaving { location: "https://operator.example/?a=b&c=d" });
    assert!(leaving.contains("data-operator=\"https://operator.example/?a=b&#38;c=d\""), "{leaving}");
    let refresh = "<noscript><meta http-equiv=\"refresh\" content=\"0;url=https://operator.example/?a=b&#38;c=d\">";
    assert!(leaving.contains(refresh) && !leaving.contains("class=\"detail\""), "{leaving}");
    let stalled = english(SignInState::Stalled);
    for html in [&leaving, &stalled] {
        assert!(html.contains(&format!("action=\"{PATH}/discover?lang=de\"><button>Try again</button>")), "{html}");
        let link = format!("href=\"{PATH}?lang=de&#38;ask=number\">Enter your number instead</a>");
        assert!(html.contains(&link) && html.contains(&format!("action=\"{PATH}/cancel?lang=de\"")), "{html}");
    }
    assert!(!stalled.contains("http-equiv") && !stalled.contains("<script"), "{stalled}");
    let plain = SignInPage { query: "", ..page(SignInState::Stalled, "Acme", Language::English) }.render().html;
    assert!(plain.contains(&format!("href=\"{PATH}?ask=number\"")), "{plain}");
}

#[test]
fn end_returns_to_the_client_by_a_link() {
    let link = "<a class=\"button\" href=\"https://app.example/?error=1\">Back to Acme</a>";
    for reason in ENDS {
        let html = english(SignInState::Ended { reason, return_to: Some("https://app.example/?error=1") });
        assert!(html.contains(link) && !html.contains("<form") && !html.contains("http-equiv"), "{html}");
        let html = english(SignInState::Ended { reason, return_to: None });
        assert!(!html.contains("Back to Acme</a>") && !html.contains("<form"), "{html}");
    }
}

#[test]
fn unproven_request_leads_nowhere() {
    let state = SignInState::BadRequest { detail: "redirect_uri is not registered" };
    let unproven = SignInPage { brand: None, redirect_uri: None, ..page(state, "Acme", Language::German) };
    let html = unproven.render().html;
    assert!(!html.contains("<header>") && !html.contains("<form") && !html.contains("<a "), "{html}");
    assert!(html.contains("<p lang=\"en\" dir=\"ltr\"><code>redirect_uri is not registered</code></p>"), "{html}");
    assert_eq!(contents(&html, "title"), ["Wir können Sie nicht anmelden"]);
}

#[test]
fn user_can_switch_the_language() {
    for state in all_states("") {
        let html = english(state);
        let has_links = !matches!(state, SignInState::Leaving { .. } | SignInState::BadRequest { .. });
        let expected = if has_links { Language::VARIANTS.len() - 1 } else { 0 };
        assert_eq!(html.matches("<li><a href=\"").count(), expected, "{html}");
    }
    let html = english(ENTRY);
    assert!(html.contains(&format!("<a href=\"{PATH}?lang=ar\" lang=\"ar\" dir=\"rtl\">العربية</a>")), "{html}");
}

#[test]
fn only_passing_states_can_be_tried_again() {
    for (state, may_retry) in [
        (SignInState::Busy, true),
        (SignInState::Unavailable, true),
        (SignInState::Refused, true),
        (SignInState::Unknown, false),
        (SignInState::OtherBrowser { has_ended: false }, false),
    ] {
        let retry = format!("<a class=\"button\" href=\"{PATH}?lang=de\">Try again</a>");
        assert_eq!(english(state).contains(&retry), may_retry, "{state:?}");
    }
}
