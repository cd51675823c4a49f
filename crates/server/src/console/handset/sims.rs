//! The simulated SIMs and their behaviour.

/// Prefix of all numbers.
const NUMBER_PREFIX: &str = "+9901234567";

#[derive(Debug)]
pub struct SimulatedSim {
    /// The last two digits, which select the behaviour.
    pub suffix: &'static str,
    pub name: &'static str,
    pub behaviour: &'static str,
}

pub const SIMS: [SimulatedSim; 9] = [
    SimulatedSim {
        suffix: "00",
        name: "Matches",
        behaviour: "All checks succeed. All other even numbers behave the same.",
    },
    SimulatedSim {
        suffix: "01",
        name: "Does not match",
        behaviour: "The operator reports another number, Discovery finds no number, and the SIM was changed within the last \
               day. All other odd numbers behave the same.",
    },
    SimulatedSim {
        suffix: "99",
        name: "Operator fails",
        behaviour: "The check ends with mno_server_error, or internal_error for Reverse SMS.",
    },
    SimulatedSim {
        suffix: "98",
        name: "No response",
        behaviour: "The check expires. SIM Swap completes without a date.",
    },
    SimulatedSim {
        suffix: "97",
        name: "Operator not supported",
        behaviour: "Creating a check fails with mno_not_supported.",
    },
    SimulatedSim {
        suffix: "96",
        name: "No Secure SNA",
        behaviour: "Creating a Secure SNA check fails with mno_not_supported. Other products succeed.",
    },
    SimulatedSim {
        suffix: "95",
        name: "Operator times out",
        behaviour: "The check ends with mno_timeout. Reverse SMS checks do not match.",
    },
    SimulatedSim {
        suffix: "94",
        name: "Unassigned number",
        behaviour: "Creating a check fails with mno_not_supported. Eligibility returns subscriber_not_found.",
    },
    SimulatedSim {
        suffix: "93",
        name: "Lookup unavailable",
        behaviour: "Creating a check fails with lookup_unavailable, which can be retried.",
    },
];

impl SimulatedSim {
    pub fn number(&self) -> String {
        format!("{NUMBER_PREFIX}{}", self.suffix)
    }

    pub fn by_suffix(digits: &str) -> Option<&'static SimulatedSim> {
        SIMS.iter().find(|sim| sim.suffix == digits)
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{phone::Msisdn, sandbox::SandboxScript, tenancy::Mode};

    use super::*;

    #[test]
    fn each_script_has_one_sim() {
        let scripts =
            SIMS.iter().map(|sim| SandboxScript::of(Msisdn::parse(&sim.number(), Mode::Sandbox).unwrap().tail()));
        let scripts: Vec<_> = scripts.collect();
        for script in [
            SandboxScript::Even,
            SandboxScript::Odd,
            SandboxScript::OperatorFault,
            SandboxScript::Silence,
            SandboxScript::NothingSupported,
            SandboxScript::NoSecureSna,
            SandboxScript::OperatorTimeout,
            SandboxScript::NoSubscriber,
            SandboxScript::LookupDown,
        ] {
            assert_eq!(scripts.iter().filter(|other| **other == script).count(), 1, "{script:?}");
        }
    }
}
