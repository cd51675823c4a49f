//! Headline and funnel of the overview: how many verifications reached each stage, and why others did not.

use ringtrue_domain::{
    activity::ActivityCounts,
    lifecycle::ErrorCode,
    verification::{
        Method,
        funnel::{Funnel, FunnelStage, LossReason},
    },
};
use ringtrue_engine::activity::CompletionPercentiles;

use crate::{
    observe::overview::{
        metrics::completion_metrics,
        outcomes::{format_percent, percentages},
    },
    page::chart::{Svg, Unit, share_bar},
};

/// A figure about verifications, such as the share of silent ones.
#[derive(Debug)]
pub struct HeadlineFigure {
    pub name: &'static str,
    pub value: String,
    /// What the figure refers to, such as "4 of 5 verified".
    pub note: String,
}

/// A stage of the funnel, and the number of checks that have reached it.
#[derive(Debug)]
pub struct StageView {
    pub name: &'static str,
    pub count: String,
    pub percent: String,
    pub bar: Svg,
    /// Why checks got no further, such as "3 expired".
    pub losses: Vec<String>,
}

/// Returns the figures above the outcomes of verifications.
pub fn headline(
    total: &ActivityCounts,
    funnel: &Funnel,
    completion: Option<CompletionPercentiles>,
) -> Vec<HeadlineFigure> {
    let methods = [Method::SecureSna, Method::ReverseSms].map(|method| funnel.count_verified(method).max(0));
    let [silent, sms] =
        percentages(methods).map(|percent| percent.map_or_else(|| "–".to_owned(), |it| format!("{it} %")));
    let verified: i64 = methods.iter().sum();
    let of_verified =
        |count: i64| format!("{} of {} verified", Unit::Count.format(count), Unit::Count.format(verified));
    let of_all =
        |count: i64| format!("{} of {}", Unit::Count.format(count.max(0)), Unit::Count.format(total.created.max(0)));
    let median = completion_metrics(completion).into_iter().next().map(|metric| metric.value).unwrap_or_default();
    vec![
        HeadlineFigure {
            name: "Verified",
            value: format_percent(total.matched, total.created),
            note: of_all(total.matched),
        },
        HeadlineFigure { name: "Silent", value: silent, note: of_verified(methods[0]) },
        HeadlineFigure { name: "By SMS", value: sms, note: of_verified(methods[1]) },
        HeadlineFigure {
            name: "Gave up",
            value: format_percent(funnel.count_given_up(), total.created),
            note: of_all(funnel.count_given_up()),
        },
        HeadlineFigure { name: "Median time to verified", value: median, note: "from creation".to_owned() },
    ]
}

/// Returns the stages of the verification funnel. A stage that no verification needs is left out: clients without the
/// hosted page have no first stage, and projects without Secure SNA no silent one.
pub fn verification_stages(total: &ActivityCounts, funnel: &Funnel) -> Vec<StageView> {
    let stage = |name: &'static str, stage: FunnelStage| {
        let count = match stage {
            FunnelStage::Created => total.created,
            _ => funnel.count_reached(stage),
        };
        let losses = funnel.losses(stage).into_iter().filter(|(_, count)| *count > 0);
        let losses = losses.map(|(reason, count)| format!("{} {}", Unit::Count.format(count), describe_loss(reason)));
        StageView { losses: losses.collect(), ..stage_view(name, count, total.created) }
    };
    let stages = [
        (FunnelStage::Created, "Created"),
        (FunnelStage::Opened, "Page opened"),
        (FunnelStage::SilentTried, "Silent check tried"),
        (FunnelStage::SmsShown, "SMS shown"),
        (FunnelStage::SmsSent, "SMS sent"),
    ];
    let is_needed = |reached: &FunnelStage| *reached == FunnelStage::Created || funnel.count_reached(*reached) > 0;
    let reached =
        stages.into_iter().filter(|(reached, _)| is_needed(reached)).map(|(reached, name)| stage(name, reached));
    reached.chain([stage_view("Verified", total.matched, total.created)]).collect()
}

/// Describes why a verification, or its silent check, ended without a match. The text follows a number of them, which
/// may be one.
fn describe_loss(reason: LossReason) -> &'static str {
    match reason {
        LossReason::NoMatch => "did not match",
        LossReason::Expired => "ran out of time",
        LossReason::Error(code) => match code {
            ErrorCode::InternalError => "failed internally",
            ErrorCode::NotMobileIp => "not on mobile data",
            ErrorCode::IpMismatch => "changed the IP address",
            ErrorCode::IpMsisdnMismatch => "on another network",
            ErrorCode::MnoNotSupported | ErrorCode::MnoRedirectUnsupported => "with an operator that is not supported",
            ErrorCode::MnoTimeout => "got no answer from the operator",
            ErrorCode::MnoUserNotFound => "unknown to the operator",
            ErrorCode::MnoResponseError | ErrorCode::MnoServerError => "met an error of the operator",
            ErrorCode::MnoNoDataAvailable => "had no data at the operator",
            ErrorCode::CodeAttemptsExceeded => "had too many wrong codes",
            ErrorCode::MethodsExhausted => "had no method left",
            ErrorCode::GivenUp => "gave up",
            ErrorCode::WrongNumber => "said that the number is not theirs",
            ErrorCode::Cancelled => "cancelled by the client",
            ErrorCode::TooManyRequests => "had too many checks of the number",
        },
    }
}

/// Returns the stages from creation to a match. The checks of a stage are a subset of the previous stage's.
pub fn check_stages(total: &ActivityCounts) -> Vec<StageView> {
    let stages = [
        ("Created", total.created),
        ("SMS received or URL opened", total.seen),
        ("Completed", total.completed),
        ("Matched", total.matched),
    ];
    stages.map(|(name, count)| stage_view(name, count, total.created)).into()
}

fn stage_view(name: &'static str, count: i64, created: i64) -> StageView {
    StageView {
        name,
        count: Unit::Count.format(count.max(0)),
        percent: format_percent(count, created),
        bar: share_bar(count.max(0) * 1_000 / created.max(1)),
        losses: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_percentages_of_created_checks() {
        let total = ActivityCounts { created: 8, seen: 6, completed: 4, matched: 3, ..ActivityCounts::default() };
        let stages = check_stages(&total);
        let shown: Vec<_> = stages.iter().map(|stage| (stage.count.as_str(), stage.percent.as_str())).collect();
        assert_eq!(shown, [("8", "100 %"), ("6", "75 %"), ("4", "50 %"), ("3", "38 %")]);
        assert!(stages[3].bar.to_string().contains("width=\"375\""));
    }

    #[test]
    fn losses_stand_at_their_stage() {
        use ringtrue_domain::verification::funnel::FunnelEvent;

        let total = ActivityCounts { created: 10, completed: 6, matched: 6, ..ActivityCounts::default() };
        let lost = |stage, reason| FunnelEvent::Lost { stage, reason };
        let funnel = Funnel(vec![
            (FunnelEvent::Reached(FunnelStage::Opened), 9),
            (FunnelEvent::Reached(FunnelStage::SmsShown), 8),
            (FunnelEvent::Reached(FunnelStage::SmsSent), 4),
            (FunnelEvent::Verified(Method::SecureSna), 2),
            (FunnelEvent::Verified(Method::ReverseSms), 4),
            (lost(FunnelStage::Created, LossReason::Expired), 1),
            (lost(FunnelStage::SmsShown, LossReason::Error(ErrorCode::GivenUp)), 1),
            (lost(FunnelStage::SmsShown, LossReason::Expired), 2),
        ]);
        let stages: Vec<_> = verification_stages(&total, &funnel)
            .into_iter()
            .map(|stage| (stage.name, stage.count, stage.losses.join(", ")))
            .collect();
        let expected = [
            ("Created", "10", "1 ran out of time"),
            ("Page opened", "9", ""),
            ("SMS shown", "8", "2 ran out of time, 1 gave up"),
            ("SMS sent", "4", ""),
            ("Verified", "6", ""),
        ];
        assert_eq!(stages, expected.map(|(name, count, losses)| (name, count.to_owned(), losses.to_owned())));
        let figures: Vec<_> =
            headline(&total, &funnel, None).into_iter().map(|it| (it.name, it.value, it.note)).collect();
        let expected = [
            ("Verified", "60 %", "6 of 10"),
            ("Silent", "33 %", "2 of 6 verified"),
            ("By SMS", "67 %", "4 of 6 verified"),
            ("Gave up", "30 %", "3 of 10"),
            ("Median time to verified", "–", "from creation"),
        ];
        assert_eq!(figures, expected.map(|(name, value, note)| (name, value.to_owned(), note.to_owned())));
    }

    #[test]
    fn percentages_of_zero_checks_are_omitted() {
        let nothing = ActivityCounts::default();
        assert!(check_stages(&nothing).iter().all(|stage| stage.percent == "–"));
    }
}
