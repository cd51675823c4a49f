//! Codes in SMS texts of end-users.

use ringtrue_domain::reverse_sms::{SmsCode, find_code_candidates};

use crate::{Target, input_reader::InputReader, text_seeds};

/// `find_code_candidates`: bounded, distinct and contained in the text; includes the expected code.
pub const SMS_TEXT: Target = Target { name: "sms_text", run, seeds, short_run_inputs: 4_000 };

const ALPHABET: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Limits of the searched characters and of the candidates.
const MAX_CHARACTERS: usize = 480;
const MAX_CANDIDATES: usize = 32;

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = text_seeds(&[
        "0123456789VERIFY 7K3QX9M20D",
        "abcdefghij7k3q-x9m2-0d",
        "ABCDEFGHIJverify: 7K3Q X9M2 OD\n-- \nSent from my phone, +44 7700 900123",
        "AAAAAAAAAACode7K3QX9M20D.Thanks",
        "KKKKKKKKKKliOo liOo li",
        "~~~~~~~~~~7K3Q\u{200b}X9M20D é ß İ ſ K 7️⃣",
        "          ",
    ]);
    seeds.push(vec!["AAAAAAAAAA"; 50].join(" ").into_bytes());
    seeds.push((0..200).flat_map(|number: u16| format!("{number:05X} ").into_bytes()).collect());
    seeds
}

fn run(data: &[u8]) {
    let mut input = InputReader::new(data);
    let mut random = [0; 10];
    random.fill_with(|| input.octet());
    let text = String::from_utf8_lossy(input.rest());

    let found = find_code_candidates(&text);
    assert!(found.len() <= MAX_CANDIDATES);
    let symbols = symbols(&text);
    for (at, code) in found.iter().enumerate() {
        assert_eq!(code.as_str().len(), 10);
        assert!(symbols.contains(code.as_str()), "{} is not in the text", code.as_str());
        assert!(!found[..at].contains(code), "{} is repeated", code.as_str());
    }

    let code = SmsCode::from_random(random);
    assert_found(code, &text, code.as_str(), 300);
    assert_found(code, &text, &confuse_symbols(code), 300);
    let (head, tail) = code.as_str().split_at(4);
    assert_found(code, &text, &format!("{head}-{tail}"), 24);
}

/// The code is found after a prefix that is short enough for the candidate limit.
fn assert_found(code: SmsCode, text: &str, written: &str, max_prefix: usize) {
    let before: String = text.chars().take(max_prefix).collect();
    let message = format!("{before} {written}");
    assert!(find_code_candidates(&message).contains(&code), "{} is not found in {message:?}", code.as_str());
    let message = format!("{message} {text}");
    assert!(find_code_candidates(&message).contains(&code), "{} is not found in {message:?}", code.as_str());
}

/// Writes `o` for 0 and `l` for 1.
fn confuse_symbols(code: SmsCode) -> String {
    code.as_str().replace('0', "o").replace('1', "l").to_ascii_lowercase()
}

/// All code symbols of a text, without separators.
fn symbols(text: &str) -> String {
    let symbol = |letter: char| match letter.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        other => other,
    };
    text.chars().take(MAX_CHARACTERS).map(symbol).filter(|symbol| ALPHABET.contains(*symbol)).collect()
}
