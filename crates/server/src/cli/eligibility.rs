//! `ringtrue eligibility`: which products a user can use.

use super::{arguments::EligibilityAction, caller, desk::Desk, failure::Failure};

pub(super) async fn run(desk: &Desk, action: EligibilityAction) -> Result<(), Failure> {
    match action {
        EligibilityAction::Number { number, identity } => caller::of_number(desk, &identity, &number.0).await,
        EligibilityAction::Ip { ip, identity } => caller::of_address(desk, &identity, &ip).await,
    }
}
