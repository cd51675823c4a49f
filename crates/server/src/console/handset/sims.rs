//! The simulated SIMs: what each is there to show.

/// What all of them begin with.
const BEGINNING: &str = "+9901234567";

/// A SIM to put into the phone.
#[derive(Debug)]
pub struct Sim {
    /// The last two digits, which decide.
    pub ends: &'static str,
    pub name: &'static str,
    pub does: &'static str,
}

pub const SIMS: [Sim; 9] = [
    Sim { ends: "00", name: "Matches", does: "All goes well. So it does with every other even number." },
    Sim {
        ends: "01",
        name: "Does not match",
        does: "Another number is recognised, Discovery finds nobody, and the SIM was changed within a day. So it is with \
               every other odd number.",
    },
    Sim {
        ends: "99",
        name: "Operator fails",
        does: "The check ends with mno_server_error; with internal_error for Reverse SMS.",
    },
    Sim {
        ends: "98",
        name: "Silence",
        does: "Nothing ever comes, and the check expires. SIM Swap completes without a date.",
    },
    Sim { ends: "97", name: "Operator not supported", does: "No check is made: mno_not_supported." },
    Sim {
        ends: "96",
        name: "No Secure SNA",
        does: "Secure SNA is refused with mno_not_supported. The rest goes well.",
    },
    Sim {
        ends: "95",
        name: "Operator too slow",
        does: "The check ends with mno_timeout. Reverse SMS asks no operator, and does not match.",
    },
    Sim {
        ends: "94",
        name: "Nobody’s number",
        does: "No check is made: mno_not_supported. Eligibility says subscriber_not_found.",
    },
    Sim {
        ends: "93",
        name: "Look-up is down",
        does: "No check is made: lookup_unavailable. Try again later, it says.",
    },
];

impl Sim {
    pub fn number(&self) -> String {
        format!("{BEGINNING}{}", self.ends)
    }

    /// The one that ends with these digits.
    pub fn ending(digits: &str) -> Option<&'static Sim> {
        SIMS.iter().find(|sim| sim.ends == digits)
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{phone::Msisdn, sandbox::Script, tenancy::Mode};

    use super::*;

    #[test]
    fn there_is_a_sim_for_each_script() {
        let scripts = SIMS.iter().map(|sim| Script::of(Msisdn::parse(&sim.number(), Mode::Sandbox).unwrap().tail()));
        let scripts: Vec<_> = scripts.collect();
        for script in [
            Script::Even,
            Script::Odd,
            Script::OperatorFault,
            Script::Silence,
            Script::NothingSupported,
            Script::NoSecureSna,
            Script::OperatorTimeout,
            Script::NoSubscriber,
            Script::LookupDown,
        ] {
            assert_eq!(scripts.iter().filter(|other| **other == script).count(), 1, "{script:?}");
        }
    }
}
