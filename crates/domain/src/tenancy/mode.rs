//! The mode of a project: sandbox or live.

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::parse_error::default_error;

/// Live projects use real operators. Sandbox projects use the simulated operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidMode, parse_err_fn = default_error)]
pub enum Mode {
    Sandbox,
    Live,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode; use `sandbox` or `live`")]
pub struct InvalidMode;

impl Mode {
    /// Whether a project may change to `next`. A live project cannot return to the sandbox, because simulated
    /// verifications could then pass for real ones.
    pub fn may_become(self, next: Mode) -> bool {
        self == next || next == Mode::Live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_projects_never_return_to_sandbox() {
        for (now, next, is_allowed) in [
            (Mode::Sandbox, Mode::Sandbox, true),
            (Mode::Sandbox, Mode::Live, true),
            (Mode::Live, Mode::Live, true),
            (Mode::Live, Mode::Sandbox, false),
        ] {
            assert_eq!(now.may_become(next), is_allowed, "{now:?} to {next:?}");
        }
    }
}
