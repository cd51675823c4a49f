//! Instructions for the user of a check: text and SMS links.

use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{Platform, sms_link},
    tenancy::Mode,
};
use serde_json::{Value, json};

use super::{
    arguments::ProfileOption,
    checks::command_name,
    pending_actions::{PendingAction, UserAction},
};
use crate::cli::{
    arguments::Output,
    printer::{self, Printer},
};

/// Fields added to the response: links that open the SMS app. Android and iOS need different formats.
pub(super) const SMS_LINK_FIELDS: [&str; 2] = ["android_link", "ios_link"];

pub(super) fn add_sms_links(mut created: Value) -> Value {
    let text = |name: &str| created.get(name).and_then(Value::as_str).map(str::to_owned);
    if let (Some(to), Some(body)) = (text("receiver_phone_number"), text("expected_sms_body"))
        // Sandbox mode accepts simulated and real numbers.
        && let Ok(to) = Msisdn::parse(&to, Mode::Sandbox)
        && let Some(members) = created.as_object_mut()
    {
        for (name, platform) in SMS_LINK_FIELDS.into_iter().zip([Platform::Android, Platform::Ios]) {
            members.insert(name.to_owned(), json!(sms_link(&to, &body, platform)));
        }
    }
    created
}

/// Prints the instructions in table mode.
pub(super) fn print_instructions(
    printer: Printer,
    action: &PendingAction,
    profile_option: &ProfileOption,
    is_watched: bool,
) {
    if printer.output != Output::Table {
        return;
    }
    // The printed commands must be ready to paste.
    let profile = profile_option.profile.as_ref().map_or_else(String::new, |name| format!(" --profile {name}"));
    let id = format!("{}{profile}", action.check_id);
    let instruction = match &action.task {
        UserAction::Text { to, body } => format!("The user must text `{body}` to {to} from the claimed number."),
        UserAction::Open { .. } => "The user's phone must open the URL over mobile data.".to_owned(),
    };
    let watch = match action.product() {
        Some(product) if !is_watched => format!("\nTo watch the check: ringtrue {} watch {id}", command_name(product)),
        _ => String::new(),
    };
    printer::print_note(&format!(
        "
{instruction}\nIn the sandbox, run: ringtrue trigger {id}{watch}"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sms_links_are_added_for_android_and_ios() {
        let created = json!({"receiver_phone_number": "+99000000001", "expected_sms_body": "VERIFY 7K3QX9M20D"});
        let output = add_sms_links(created);
        assert_eq!(output["android_link"], "sms:+99000000001?body=VERIFY%207K3QX9M20D");
        assert_eq!(output["ios_link"], "sms:+99000000001&body=VERIFY%207K3QX9M20D");
        assert_eq!(add_sms_links(json!({"url": "x"})), json!({"url": "x"}));
    }
}
