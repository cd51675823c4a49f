//! What the user of a check must do, in words and as links that open the message.

use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{Platform, sms_link},
    tenancy::Mode,
};
use serde_json::{Value, json};

use super::{
    arguments::Identity,
    checks::command,
    memory::{Errand, Task},
};
use crate::cli::{
    arguments::Output,
    printer::{self, Printer},
};

/// Added to what the server says: phones open the message by them. The two systems want different ones.
pub(super) const LINKS: [&str; 2] = ["android_link", "ios_link"];

pub(super) fn with_links(mut created: Value) -> Value {
    let text = |name: &str| created.get(name).and_then(Value::as_str).map(str::to_owned);
    if let (Some(to), Some(body)) = (text("receiver_phone_number"), text("expected_sms_body"))
        // A sandbox takes simulated numbers and all others.
        && let Ok(to) = Msisdn::parse(&to, Mode::Sandbox)
        && let Some(members) = created.as_object_mut()
    {
        for (name, platform) in LINKS.into_iter().zip([Platform::Android, Platform::Ios]) {
            members.insert(name.to_owned(), json!(sms_link(&to, &body, platform)));
        }
    }
    created
}

/// Says it to people.
pub(super) fn tell(printer: Printer, errand: &Errand, identity: &Identity, is_watched: bool) {
    if printer.output != Output::Table {
        return;
    }
    // So that the commands can be pasted as they are.
    let profile = identity.profile.as_ref().map_or_else(String::new, |name| format!(" --profile {name}"));
    let id = format!("{}{profile}", errand.check_id);
    let task = match &errand.task {
        Task::Text { to, body } => format!("The user must text `{body}` to {to}, from the number in question."),
        Task::Open { .. } => "The user's phone must open the URL, over mobile data.".to_owned(),
    };
    let watch = match errand.product() {
        Some(product) if !is_watched => format!("\nTo see what comes of it: ringtrue {} watch {id}", command(product)),
        _ => String::new(),
    };
    printer::remark(&format!("\n{task}\nIn the sandbox, do it with: ringtrue trigger {id}{watch}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_suit_both_systems() {
        let created = json!({"receiver_phone_number": "+99000000001", "expected_sms_body": "VERIFY 7K3QX9M20D"});
        let shown = with_links(created);
        assert_eq!(shown["android_link"], "sms:+99000000001?body=VERIFY%207K3QX9M20D");
        assert_eq!(shown["ios_link"], "sms:+99000000001&body=VERIFY%207K3QX9M20D");
        assert_eq!(with_links(json!({"url": "x"})), json!({"url": "x"}));
    }
}
