//! What an answer says of a number.

use hickory_resolver::proto::op::ResponseCode;
use ringtrue_domain::{network::NetworkId, phone::Msisdn};
use ringtrue_engine::ports::{Resolved, SourceFault};

use super::{
    Reading,
    message::Answer,
    record::{Record, Unreadable},
    uri::NumberUri,
};

/// What is to be made of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The source has spoken, and its other servers would say the same.
    Final(Result<Resolved, SourceFault>),
    /// This server is not able to answer. Another one may.
    AskAnother(SourceFault),
    /// This server does not understand EDNS.
    AskPlainly,
}

/// What one record says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Saying {
    Network(NetworkId),
    /// A code that is in no table: somebody serves the number, and not whom its prefix names.
    OtherNetwork,
    NotPorted,
    UnknownSubscriber,
    Refused,
    Nothing,
}

impl Reading {
    pub fn judge(&self, answer: &Answer, number: &Msisdn) -> Judgement {
        match answer.code {
            ResponseCode::NoError => Judgement::Final(self.resolve(answer, number)),
            ResponseCode::NXDomain => Judgement::Final(Ok(self.unknown())),
            // Who refuses and still has something to say has looked: only others' numbers or our account can be why.
            ResponseCode::Refused if !answer.records.is_empty() => Judgement::Final(Err(SourceFault::Refused)),
            ResponseCode::FormErr | ResponseCode::NotImp => Judgement::AskPlainly,
            _ => Judgement::AskAnother(SourceFault::Refused),
        }
    }

    /// The first record that names a network decides, and else one that names a stranger. Without either, what was
    /// refused is no answer, and what could not be read may have been one.
    fn resolve(&self, answer: &Answer, number: &Msisdn) -> Result<Resolved, SourceFault> {
        let mut records: Vec<&Record> = answer.records.iter().filter(|record| record.is_for_us()).collect();
        records.sort_by_key(|record| (record.order, record.preference));
        let (mut is_strangers, mut is_refused, mut is_unknown, mut is_understood) = (false, false, false, false);
        let mut is_spoilt = answer.is_spoilt;
        for record in records {
            match self.saying(record, number) {
                Ok(Some(Saying::Network(network))) => return Ok(Resolved::Network(network)),
                Ok(Some(saying)) => {
                    is_understood = true;
                    is_strangers |= saying == Saying::OtherNetwork;
                    is_refused |= saying == Saying::Refused;
                    is_unknown |= saying == Saying::UnknownSubscriber;
                    if let (Saying::NotPorted, Some(network), false) = (saying, &self.not_ported, is_strangers) {
                        return Ok(Resolved::Network(network.clone()));
                    }
                }
                Ok(None) => {}
                Err(Unreadable) => is_spoilt = true,
            }
        }
        if is_strangers {
            return Ok(Resolved::OtherNetwork);
        }
        match (is_refused, is_unknown) {
            (true, _) => Err(SourceFault::Refused),
            (false, true) => Ok(self.unknown()),
            (false, false) if is_spoilt && !is_understood => Err(SourceFault::Nonsense),
            (false, false) => Ok(Resolved::NoData),
        }
    }

    /// `None`: nothing of this number.
    fn saying(&self, record: &Record, number: &Msisdn) -> Result<Option<Saying>, Unreadable> {
        let Some(uri) = record.uri(number)? else { return Ok(None) };
        let uri = NumberUri::parse(&uri).ok_or(Unreadable)?;
        let is_code = |name: &str, code: u16| uri.parameter(name).is_some_and(|value| value.parse() == Ok(code));
        let is_told = |name: &str| uri.parameter(name).is_some_and(|value| !value.is_empty());
        let has_error = uri.parameter("err").is_some_and(|value| value.parse() != Ok(0_u16));
        Ok(Some(if has_error {
            Saying::Refused
        } else if is_code("q_stat", 102) {
            Saying::Nothing
        } else if is_code("gsm_error_code", 1) {
            Saying::UnknownSubscriber
        } else if let Some(network) = self.network(&uri) {
            Saying::Network(network)
        } else if is_told("rn") || is_told("spn") {
            Saying::OtherNetwork
        } else if uri.parameter("npdi").is_some() && uri.parameter("rn").is_none() && uri.parameter("spn").is_none() {
            Saying::NotPorted
        } else {
            Saying::Nothing
        }))
    }

    fn network(&self, uri: &NumberUri) -> Option<NetworkId> {
        let of_codes = |(country, network): (&str, &str)| self.known.meant(country, network);
        let said = uri.parameter("mcc").zip(uri.parameter("mnc")).and_then(of_codes);
        said.or_else(|| uri.parameter("mccmnc").and_then(|codes| self.known.meant_by(codes)))
            .or_else(|| uri.codes_of_host().and_then(of_codes))
            .or_else(|| uri.parameter("rn").and_then(|code| self.routing_numbers.find(code)).cloned())
            .or_else(|| uri.parameter("spn").and_then(|code| self.service_providers.find(code)).cloned())
    }

    /// Of a number that the source does not know.
    fn unknown(&self) -> Resolved {
        if self.is_authoritative { Resolved::NoSubscriber } else { Resolved::NoData }
    }
}
