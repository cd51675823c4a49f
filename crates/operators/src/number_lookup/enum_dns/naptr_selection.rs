//! Selects the NAPTR record that determines the network.

use hickory_resolver::proto::op::ResponseCode;
use ringtrue_domain::{network::NetworkId, phone::Msisdn};
use ringtrue_engine::ports::{LookupError, LookupResult};

use super::{
    RecordRules,
    message::EnumAnswer,
    naptr_record::{InvalidRecord, NaptrRecord},
    number_uri::NumberUri,
};

/// How to proceed after a server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnumDecision {
    /// The result of the source; other servers would return the same.
    Final(Result<LookupResult, LookupError>),
    /// This server failed; another one may not.
    TryNextServer(LookupError),
    /// This server does not support EDNS.
    RetryWithoutEdns,
}

/// Interpretation of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RecordMeaning {
    Network(NetworkId),
    /// An unmapped operator code: the number is ported to an unknown network.
    OtherNetwork,
    NotPorted,
    UnknownSubscriber,
    Refused,
    Nothing,
}

impl RecordRules {
    pub fn evaluate(&self, answer: &EnumAnswer, number: &Msisdn) -> EnumDecision {
        match answer.code {
            ResponseCode::NoError => EnumDecision::Final(self.resolve(answer, number)),
            ResponseCode::NXDomain => EnumDecision::Final(Ok(self.unknown_number())),
            // REFUSED with records is a refusal of this number or account, not a server failure.
            ResponseCode::Refused if !answer.records.is_empty() => EnumDecision::Final(Err(LookupError::Refused)),
            ResponseCode::FormErr | ResponseCode::NotImp => EnumDecision::RetryWithoutEdns,
            _ => EnumDecision::TryNextServer(LookupError::Refused),
        }
    }

    /// The first record with a network wins, then one with an unmapped operator code. Otherwise refusals and unreadable
    /// records are errors.
    fn resolve(&self, answer: &EnumAnswer, number: &Msisdn) -> Result<LookupResult, LookupError> {
        let mut records: Vec<&NaptrRecord> =
            answer.records.iter().filter(|record| record.is_number_service()).collect();
        records.sort_by_key(|record| (record.order, record.preference));
        let (mut has_other_network, mut has_refusal, mut has_unknown_subscriber, mut has_readable_record) =
            (false, false, false, false);
        let mut has_unreadable_records = answer.has_unreadable_records;
        for record in records {
            match self.interpret(record, number) {
                Ok(Some(RecordMeaning::Network(network))) => return Ok(LookupResult::Network(network)),
                Ok(Some(meaning)) => {
                    has_readable_record = true;
                    has_other_network |= meaning == RecordMeaning::OtherNetwork;
                    has_refusal |= meaning == RecordMeaning::Refused;
                    has_unknown_subscriber |= meaning == RecordMeaning::UnknownSubscriber;
                    if let (RecordMeaning::NotPorted, Some(network), false) =
                        (meaning, &self.not_ported, has_other_network)
                    {
                        return Ok(LookupResult::Network(network.clone()));
                    }
                }
                Ok(None) => {}
                Err(InvalidRecord) => has_unreadable_records = true,
            }
        }
        if has_other_network {
            return Ok(LookupResult::OtherNetwork);
        }
        match (has_refusal, has_unknown_subscriber) {
            (true, _) => Err(LookupError::Refused),
            (false, true) => Ok(self.unknown_number()),
            (false, false) if has_unreadable_records && !has_readable_record => Err(LookupError::InvalidResponse),
            (false, false) => Ok(LookupResult::NoData),
        }
    }

    /// `None`: the record does not apply to this number.
    fn interpret(&self, record: &NaptrRecord, number: &Msisdn) -> Result<Option<RecordMeaning>, InvalidRecord> {
        let Some(text) = record.apply(number)? else { return Ok(None) };
        let uri = NumberUri::parse(&text).ok_or(InvalidRecord)?;
        let has_code = |name: &str, code: u16| uri.parameter(name).is_some_and(|value| value.parse() == Ok(code));
        let has_value = |name: &str| uri.parameter(name).is_some_and(|value| !value.is_empty());
        let has_error = uri.parameter("err").is_some_and(|value| value.parse() != Ok(0_u16));
        Ok(Some(if has_error {
            RecordMeaning::Refused
        } else if has_code("q_stat", 102) {
            RecordMeaning::Nothing
        } else if has_code("gsm_error_code", 1) {
            RecordMeaning::UnknownSubscriber
        } else if let Some(network) = self.network(&uri) {
            RecordMeaning::Network(network)
        } else if has_value("rn") || has_value("spn") {
            RecordMeaning::OtherNetwork
        } else if uri.parameter("npdi").is_some() && uri.parameter("rn").is_none() && uri.parameter("spn").is_none() {
            RecordMeaning::NotPorted
        } else {
            RecordMeaning::Nothing
        }))
    }

    fn network(&self, uri: &NumberUri) -> Option<NetworkId> {
        let resolve = |(country, network): (&str, &str)| self.known_networks.resolve_plmn(country, network);
        let by_parameters = uri.parameter("mcc").zip(uri.parameter("mnc")).and_then(resolve);
        by_parameters
            .or_else(|| uri.parameter("mccmnc").and_then(|codes| self.known_networks.resolve_plmn_code(codes)))
            .or_else(|| uri.plmn_from_host().and_then(resolve))
            .or_else(|| uri.parameter("rn").and_then(|code| self.routing_numbers.find(code)).cloned())
            .or_else(|| uri.parameter("spn").and_then(|code| self.service_providers.find(code)).cloned())
    }

    /// Result for a number that the source does not know.
    fn unknown_number(&self) -> LookupResult {
        if self.is_authoritative { LookupResult::NoSubscriber } else { LookupResult::NoData }
    }
}
