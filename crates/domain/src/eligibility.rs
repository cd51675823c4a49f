//! Eligibility: which products a project can use for an end-user.
//!
//! A product is eligible if it passes three gates, in this order: a connector reaches the end-user's operator, the
//! project is authorised for the product and the network, and a connector supports the product.

use strum::IntoStaticStr;

use crate::{
    network::{AllowedNetwork, NetworkId},
    product::Product,
    tenancy::Project,
    verification::{Method, select_methods},
};

/// The products that Eligibility covers, in the order of the response.
pub const PRODUCTS: [Product; 4] = [Product::SecureSna, Product::SimSwap, Product::ReverseSms, Product::Discovery];

/// The gate (condition of eligibility) that rejects a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum EligibilityGate {
    /// No connector reaches the end-user's operator.
    Connectivity,
    /// The project is not enabled for the product, or may not use the network for it.
    Authorisation,
    /// No connector to the operator supports the product.
    #[strum(serialize = "product support")]
    ProductSupport,
}

/// What the gates (the conditions of eligibility) check, for one project and network.
#[derive(Clone, Copy, Debug)]
pub struct EligibilityInput<'a> {
    pub network: &'a NetworkId,
    /// Products that connectors to the network's operator support.
    pub supported: &'a [Product],
    /// Products that the project is enabled for.
    pub enabled: &'a [Product],
    /// Networks that the project may use.
    pub allowed: &'a [AllowedNetwork],
}

impl<'a> EligibilityInput<'a> {
    pub fn for_project(project: &'a Project, network: &'a NetworkId, supported: &'a [Product]) -> Self {
        EligibilityInput { network, supported, enabled: &project.products, allowed: &project.allowed_networks }
    }

    /// Returns `Ok` if the product is eligible. Otherwise fails with the first gate that rejects it.
    pub fn evaluate(&self, product: Product) -> Result<(), EligibilityGate> {
        let allows = |allowed: &AllowedNetwork| allowed.allows(self.network, product);
        if self.supported.is_empty() {
            Err(EligibilityGate::Connectivity)
        } else if !self.enabled.contains(&product) || !self.allowed.iter().any(allows) {
            Err(EligibilityGate::Authorisation)
        } else if !self.supported.contains(&product) {
            Err(EligibilityGate::ProductSupport)
        } else {
            Ok(())
        }
    }

    pub fn eligible_products(&self) -> Vec<Product> {
        PRODUCTS.into_iter().filter(|product| self.evaluate(*product).is_ok()).collect()
    }
}

/// Returns the methods that a verification would use for an end-user, in order. Empty: a verification would be
/// rejected.
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

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    #[test]
    fn product_must_pass_three_gates() {
        use Product::{Discovery, ReverseSms, SecureSna, SimSwap};
        let network: NetworkId = "23410".parse().unwrap();
        let allowed = |id: &str, products: &[Product]| AllowedNetwork {
            network: id.parse().unwrap(),
            products: products.to_vec(),
        };
        let all = [allowed("23410", &PRODUCTS)];
        // Columns: supported, enabled and allowed products; the result for Secure SNA; all eligible products.
        for (supported, enabled, allowed, secure_sna, eligible) in [
            (&PRODUCTS[..], Product::VARIANTS, &all[..], Ok(()), &PRODUCTS[..]),
            (&[], Product::VARIANTS, &all, Err(EligibilityGate::Connectivity), &[]),
            (&[ReverseSms], Product::VARIANTS, &all, Err(EligibilityGate::ProductSupport), &[ReverseSms]),
            (&PRODUCTS, &[Discovery, SimSwap], &all, Err(EligibilityGate::Authorisation), &[SimSwap, Discovery]),
            (&PRODUCTS, Product::VARIANTS, &[], Err(EligibilityGate::Authorisation), &[]),
            (&PRODUCTS, Product::VARIANTS, &[allowed("23420", &PRODUCTS)], Err(EligibilityGate::Authorisation), &[]),
            (&PRODUCTS, Product::VARIANTS, &[allowed("23410", &[SecureSna])], Ok(()), &[SecureSna]),
        ] {
            let input = EligibilityInput { network: &network, supported, enabled, allowed };
            assert_eq!(input.evaluate(SecureSna), secure_sna, "{input:?}");
            assert_eq!(input.eligible_products(), eligible, "{input:?}");
        }
    }

    /// Creating a check evaluates only one product. The result must be the same as in the Eligibility response.
    #[test]
    fn other_supported_products_do_not_affect_a_product() {
        let network: NetworkId = "23410".parse().unwrap();
        let subset = |bits: usize| -> Vec<Product> {
            PRODUCTS.into_iter().enumerate().filter(|(place, _)| bits & (1 << place) != 0).map(|(_, p)| p).collect()
        };
        for bits in 0..1 << 12 {
            let (supported, enabled) = (subset(bits), subset(bits >> 4));
            let allowed = [AllowedNetwork { network: network.clone().into(), products: subset(bits >> 8) }];
            for product in PRODUCTS {
                let alone: Vec<Product> = supported.iter().copied().filter(|other| *other == product).collect();
                let [known, alone] = [&supported, &alone].map(|supported| EligibilityInput {
                    network: &network,
                    supported,
                    enabled: &enabled,
                    allowed: &allowed,
                });
                let is_open = alone.evaluate(product).is_ok();
                assert_eq!(is_open, known.eligible_products().contains(&product), "{bits:b} {product:?}");
            }
        }
    }
}
