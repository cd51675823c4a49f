//! Address ranges and their owners.
//!
//! Ranges may be nested; the smallest one wins. Building the table resolves nesting into a sorted list of addresses at
//! which the owner changes. A lookup finds the last change at or before the address, by binary search within the bucket
//! of the address's first bits. Measured with 100,000 ranges, it takes half the time of a prefix trie and a quarter of
//! an MMDB, without allocation.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// Index of an owner; the caller keeps the list.
pub(super) type Owner = u32;

#[derive(Debug, Default)]
pub(super) struct RangeTable {
    v4: OwnerChanges<u32>,
    v6: OwnerChanges<u128>,
}

/// A range with two owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConflictingRange {
    pub range: IpNet,
    pub owners: [Owner; 2],
}

impl RangeTable {
    /// Masks host bits and converts IPv4-mapped ranges to IPv4.
    pub fn new(ranges: impl IntoIterator<Item = (IpNet, Owner)>) -> Result<Self, ConflictingRange> {
        let mut ranges: Vec<(IpNet, Owner)> =
            ranges.into_iter().map(|(range, owner)| (to_ipv4_if_mapped(range.trunc()), owner)).collect();
        // Sorts a range before the ranges nested in it.
        ranges.sort_unstable_by_key(|(range, owner)| (range.network(), range.prefix_len(), *owner));
        ranges.dedup();
        if let Some([(range, one), (_, other)]) = ranges.array_windows().find(|[one, other]| one.0 == other.0) {
            return Err(ConflictingRange { range: *range, owners: [*one, *other] });
        }
        let v4 = ranges.iter().filter_map(|(range, owner)| match range {
            IpNet::V4(range) => Some((range.network().to_bits(), range.broadcast().to_bits(), *owner)),
            IpNet::V6(_) => None,
        });
        let v6 = ranges.iter().filter_map(|(range, owner)| match range {
            IpNet::V6(range) => Some((range.network().to_bits(), range.broadcast().to_bits(), *owner)),
            IpNet::V4(_) => None,
        });
        Ok(RangeTable { v4: OwnerChanges::new(v4), v6: OwnerChanges::new(v6) })
    }

    /// Callers convert IPv4-mapped addresses first.
    pub fn owner(&self, address: IpAddr) -> Option<Owner> {
        match address {
            IpAddr::V4(address) => self.v4.owner(address.to_bits()),
            IpAddr::V6(address) => self.v6.owner(address.to_bits()),
        }
    }
}

fn to_ipv4_if_mapped(range: IpNet) -> IpNet {
    const MAPPED_PREFIX_BITS: u8 = 96;
    let IpNet::V6(v6) = range else { return range };
    let v4 = v6.prefix_len().checked_sub(MAPPED_PREFIX_BITS).zip(v6.network().to_ipv4_mapped());
    v4.and_then(|(length, address)| Ipv4Net::new(address, length).ok()).map_or(range, IpNet::V4)
}

/// An address as an integer.
trait AddressBits: Copy + Ord {
    /// Monotonic in the address, and below [`BUCKETS`].
    fn bucket(self) -> usize;

    fn next(self) -> Option<Self>;
}

const BUCKET_BITS: u32 = 16;
/// One bucket per bit pattern, one for addresses below all of them, one for those above.
const BUCKETS: usize = (1 << BUCKET_BITS) + 2;

impl AddressBits for u32 {
    fn bucket(self) -> usize {
        (self >> (u32::BITS - BUCKET_BITS)) as usize
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// Routed addresses share their first three bits (`2000::/3`), so the bucket uses the bits after them.
impl AddressBits for u128 {
    fn bucket(self) -> usize {
        const SHARED_BITS: u32 = 3;
        let bits = usize::try_from(self >> (u128::BITS - BUCKET_BITS - SHARED_BITS)).unwrap_or(usize::MAX);
        bits.saturating_sub((1 << BUCKET_BITS) - 1).min(BUCKETS - 1)
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// Addresses at which the owner changes, in ascending order.
#[derive(Debug)]
struct OwnerChanges<A> {
    starts: Box<[A]>,
    /// Owner from each start to the next one.
    owners: Box<[Option<Owner>]>,
    /// Number of starts before each bucket, and the total at the end.
    bucket_offsets: Box<[u32]>,
}

impl<A> Default for OwnerChanges<A> {
    fn default() -> Self {
        OwnerChanges { starts: Box::default(), owners: Box::default(), bucket_offsets: Box::default() }
    }
}

impl<A: AddressBits> OwnerChanges<A> {
    /// Takes first address, last address and owner; a range precedes the ranges nested in it.
    fn new(ranges: impl Iterator<Item = (A, A, Owner)>) -> Self {
        let mut changes = OwnerChangesBuilder::default();
        // The ranges around the current address, widest first.
        let mut enclosing: Vec<(A, Owner)> = vec![];
        let close_innermost = |enclosing: &mut Vec<(A, Owner)>, changes: &mut OwnerChangesBuilder<A>, last: A| {
            enclosing.pop();
            if let Some(after) = last.next() {
                changes.add(after, enclosing.last().map(|(_, owner)| *owner));
            }
        };
        for (first, last, owner) in ranges {
            while let Some((end, _)) = enclosing.last().copied().filter(|(end, _)| *end < first) {
                close_innermost(&mut enclosing, &mut changes, end);
            }
            enclosing.push((last, owner));
            changes.add(first, Some(owner));
        }
        while let Some((end, _)) = enclosing.last().copied() {
            close_innermost(&mut enclosing, &mut changes, end);
        }
        changes.build()
    }

    fn owner(&self, address: A) -> Option<Owner> {
        let bucket = address.bucket();
        let [from, to] =
            [self.bucket_offsets.get(bucket)?, self.bucket_offsets.get(bucket + 1)?].map(|place| *place as usize);
        let position = from + self.starts.get(from..to)?.partition_point(|start| *start <= address);
        *self.owners.get(position.checked_sub(1)?)?
    }
}

struct OwnerChangesBuilder<A>(Vec<(A, Option<Owner>)>);

impl<A> Default for OwnerChangesBuilder<A> {
    fn default() -> Self {
        OwnerChangesBuilder(vec![])
    }
}

impl<A: AddressBits> OwnerChangesBuilder<A> {
    /// Replaces an earlier change at the same address.
    fn add(&mut self, start: A, owner: Option<Owner>) {
        if self.0.last().is_some_and(|(last, _)| *last == start) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|(_, previous)| *previous != owner) {
            self.0.push((start, owner));
        }
    }

    fn build(self) -> OwnerChanges<A> {
        let mut bucket_offsets = vec![0_u32; BUCKETS + 1];
        for (start, _) in &self.0 {
            bucket_offsets[start.bucket() + 1] += 1;
        }
        for bucket in 0..BUCKETS {
            bucket_offsets[bucket + 1] += bucket_offsets[bucket];
        }
        let (starts, owners): (Vec<A>, Vec<Option<Owner>>) = self.0.into_iter().unzip();
        OwnerChanges { starts: starts.into(), owners: owners.into(), bucket_offsets: bucket_offsets.into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(ranges: &[(&str, Owner)]) -> Result<RangeTable, ConflictingRange> {
        RangeTable::new(ranges.iter().map(|(range, owner)| (range.parse().unwrap(), *owner)))
    }

    #[test]
    fn smallest_enclosing_range_wins() {
        let table = table(&[
            ("10.0.0.0/8", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.0/24", 1),
            ("10.1.2.3/32", 3),
            ("255.255.255.0/24", 4),
            ("2001:db8::/32", 5),
            ("2001:db8:ffff::/48", 6),
            ("fd00::/8", 7),
            ("::/127", 8),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127", 9),
        ])
        .unwrap();
        for (address, owner) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(1)),
            ("10.0.255.255", Some(1)),
            ("10.1.0.0", Some(2)),
            ("10.1.2.2", Some(1)),
            ("10.1.2.3", Some(3)),
            ("10.1.2.4", Some(1)),
            ("10.1.3.0", Some(2)),
            ("10.2.0.0", Some(1)),
            ("11.0.0.0", None),
            ("255.255.254.255", None),
            ("255.255.255.255", Some(4)),
            ("2001:db7:ffff::", None),
            ("2001:db8::", Some(5)),
            ("2001:db8:ffff::1", Some(6)),
            ("2001:db9::", None),
            ("fcff::", None),
            ("fd00::1", Some(7)),
            ("fe00::", None),
            ("::", Some(8)),
            ("::2", None),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(9)),
        ] {
            assert_eq!(table.owner(address.parse().unwrap()), owner, "{address}");
        }
    }

    #[test]
    fn empty_table_has_no_owners() {
        for address in ["0.0.0.0", "255.255.255.255", "::", "2001:db8::1"] {
            assert_eq!(RangeTable::default().owner(address.parse().unwrap()), None);
            assert_eq!(table(&[]).unwrap().owner(address.parse().unwrap()), None);
        }
    }

    #[test]
    fn ranges_are_normalized() {
        for (range, inside, outside) in [
            ("23.124.1.200/20", "23.124.15.255", "23.124.16.0"),
            ("::ffff:23.124.1.200/116", "23.124.15.255", "23.124.16.0"),
            ("2001:db8::1/64", "2001:db8::ffff", "2001:db8:0:1::"),
        ] {
            let table = table(&[(range, 1)]).unwrap();
            assert_eq!(table.owner(inside.parse().unwrap()), Some(1), "{range}");
            assert_eq!(table.owner(outside.parse().unwrap()), None, "{range}");
        }
    }

    #[test]
    fn range_with_two_owners_is_rejected() {
        assert!(table(&[("10.0.0.0/8", 1), ("10.0.0.0/8", 1)]).is_ok());
        let conflict = table(&[("10.0.0.0/8", 2), ("10.255.0.0/8", 1)]).unwrap_err();
        assert_eq!(conflict, ConflictingRange { range: "10.0.0.0/8".parse().unwrap(), owners: [1, 2] });
    }

    fn range() -> impl Strategy<Value = IpNet> {
        // Few distinct leading bits, so that ranges are nested.
        let v4 = (any::<u32>(), 0..=32_u8)
            .prop_map(|(bits, length)| IpNet::V4(Ipv4Net::new((bits & 0x0301_0307).into(), length).unwrap()));
        let v6 = (any::<u128>(), 0..=128_u8).prop_map(|(bits, length)| {
            let bits = bits & 0x3003_0001_0000_0000_0001_0000_0000_0107;
            IpNet::V6(ipnet::Ipv6Net::new(bits.into(), length).unwrap())
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn lookup_agrees_with_linear_search(
            ranges in proptest::collection::vec(range(), 0..40),
            others in proptest::collection::vec(range(), 0..40),
        ) {
            let mut ranges: Vec<IpNet> = ranges.iter().map(IpNet::trunc).collect();
            ranges.sort_unstable();
            ranges.dedup();
            let owned = || (0..).zip(ranges.iter().copied()).map(|(owner, range)| (range, owner));
            let table = RangeTable::new(owned()).unwrap();
            let edges = ranges.iter().chain(&others).flat_map(|range| [range.addr(), range.network(), range.broadcast()]);
            for address in edges {
                let enclosing = owned().filter(|(range, _)| range.contains(&address));
                let narrowest = enclosing.max_by_key(|(range, _)| range.prefix_len()).map(|(_, owner)| owner);
                prop_assert_eq!(table.owner(address), narrowest, "{}", address);
            }
        }
    }
}
