//! The methods that a verification of an end-user would use, for explanations of eligibility.

use ringtrue_domain::{
    eligibility::EligibilityGate,
    product::Product,
    tenancy::Project,
    verification::{Method, select_methods},
};

/// In order. Empty if a verification would be rejected.
pub fn verification_methods(
    project: Option<&Project>,
    gates: &[(Product, Result<(), EligibilityGate>)],
) -> Vec<Method> {
    if project.is_some_and(|project| !project.products.contains(&Product::Verification)) {
        return vec![];
    }
    let configured = project.and_then(|project| project.configuration.verification.methods.as_deref());
    select_methods(None, configured, |method| {
        gates.iter().any(|(product, gate)| *product == method.product() && gate.is_ok())
    })
}
