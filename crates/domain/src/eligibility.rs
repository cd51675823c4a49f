//! Which products a user can use: three gates, one function.
//!
//! A product is open when the service is connected to the user's operator, the project may use that network for it, and
//! a connection to the operator supports it. What is supported is a fact about connectors, never a table of its own.

use crate::{
    network::{AllowedNetwork, NetworkId},
    product::Product,
    tenancy::Project,
};

/// The products that Eligibility tells about, in the order of its answers.
pub const PRODUCTS: [Product; 4] = [Product::SecureSna, Product::SimSwap, Product::ReverseSms, Product::Discovery];

/// What lets a product fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// No connection to the operator.
    Connectivity,
    /// The project is not enabled for the product, or may not use the network for it.
    Authorisation,
    /// None of the connections to the operator can do it.
    ProductSupport,
}

impl Gate {
    pub fn as_str(self) -> &'static str {
        match self {
            Gate::Connectivity => "connectivity",
            Gate::Authorisation => "authorisation",
            Gate::ProductSupport => "product support",
        }
    }
}

/// What the gates look at.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    pub network: &'a NetworkId,
    /// What connections to the network's operator can do.
    pub supported: &'a [Product],
    /// What the project is enabled for.
    pub enabled: &'a [Product],
    /// Which networks the project may use.
    pub allowed: &'a [AllowedNetwork],
}

impl<'a> Standing<'a> {
    pub fn of(project: &'a Project, network: &'a NetworkId, supported: &'a [Product]) -> Self {
        Standing { network, supported, enabled: &project.products, allowed: &project.allowed_networks }
    }

    /// Whether all gates are open for a product, or else the first that is not.
    pub fn judge(&self, product: Product) -> Result<(), Gate> {
        let allows = |allowed: &AllowedNetwork| allowed.allows(self.network, product);
        if self.supported.is_empty() {
            Err(Gate::Connectivity)
        } else if !self.enabled.contains(&product) || !self.allowed.iter().any(allows) {
            Err(Gate::Authorisation)
        } else if !self.supported.contains(&product) {
            Err(Gate::ProductSupport)
        } else {
            Ok(())
        }
    }

    pub fn eligible(&self) -> Vec<Product> {
        PRODUCTS.into_iter().filter(|product| self.judge(*product).is_ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_passes_three_gates() {
        use Product::{Discovery, ReverseSms, SecureSna, SimSwap};
        let network: NetworkId = "23410".parse().unwrap();
        let allowed = |id: &str, products: &[Product]| AllowedNetwork {
            network: id.parse().unwrap(),
            products: products.to_vec(),
        };
        let all = [allowed("23410", &PRODUCTS)];
        // Supported, enabled, allowed, and what comes of Secure SNA and of all.
        for (supported, enabled, allowed, secure_sna, eligible) in [
            (&PRODUCTS[..], &Product::ALL[..], &all[..], Ok(()), &PRODUCTS[..]),
            (&[], &Product::ALL, &all, Err(Gate::Connectivity), &[]),
            (&[ReverseSms], &Product::ALL, &all, Err(Gate::ProductSupport), &[ReverseSms]),
            (&PRODUCTS, &[Discovery, SimSwap], &all, Err(Gate::Authorisation), &[SimSwap, Discovery]),
            (&PRODUCTS, &Product::ALL, &[], Err(Gate::Authorisation), &[]),
            (&PRODUCTS, &Product::ALL, &[allowed("23420", &PRODUCTS)], Err(Gate::Authorisation), &[]),
            (&PRODUCTS, &Product::ALL, &[allowed("23410", &[SecureSna])], Ok(()), &[SecureSna]),
        ] {
            let standing = Standing { network: &network, supported, enabled, allowed };
            assert_eq!(standing.judge(SecureSna), secure_sna, "{standing:?}");
            assert_eq!(standing.eligible(), eligible, "{standing:?}");
        }
    }

    /// A create knows of its own product alone whether it is supported, and yet comes to the same end as Eligibility.
    #[test]
    fn what_else_is_supported_opens_and_closes_nothing() {
        let network: NetworkId = "23410".parse().unwrap();
        let subset = |bits: usize| -> Vec<Product> {
            PRODUCTS.into_iter().enumerate().filter(|(place, _)| bits & (1 << place) != 0).map(|(_, p)| p).collect()
        };
        for bits in 0..1 << 12 {
            let (supported, enabled) = (subset(bits), subset(bits >> 4));
            let allowed = [AllowedNetwork { network: network.clone().into(), products: subset(bits >> 8) }];
            for product in PRODUCTS {
                let alone: Vec<Product> = supported.iter().copied().filter(|other| *other == product).collect();
                let [known, alone] = [&supported, &alone].map(|supported| Standing {
                    network: &network,
                    supported,
                    enabled: &enabled,
                    allowed: &allowed,
                });
                let is_open = alone.judge(product).is_ok();
                assert_eq!(is_open, known.eligible().contains(&product), "{bits:b} {product:?}");
            }
        }
    }
}
