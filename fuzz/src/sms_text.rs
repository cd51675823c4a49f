//! What people text: the codes that are found in it.

use ringtrue_domain::reverse_sms::{Code, candidates};

use crate::{Target, tape::Tape, texts};

/// `candidates`: few, each once, each really in the text; and the code that somebody was told to send is among them.
pub const SMS_TEXT: Target = Target { name: "sms_text", run, seeds, short_run: 4_000 };

const ALPHABET: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// How many characters are looked at, and how many candidates are tried.
const LOOKED_AT: usize = 480;
const TRIED: usize = 32;

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
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
    let mut tape = Tape::new(data);
    let mut random = [0; 10];
    random.fill_with(|| tape.octet());
    let text = String::from_utf8_lossy(tape.rest());

    let found = candidates(&text);
    assert!(found.len() <= TRIED);
    let symbols = symbols(&text);
    for (at, code) in found.iter().enumerate() {
        assert_eq!(code.as_str().len(), 10);
        assert!(symbols.contains(code.as_str()), "{} is not in the text", code.as_str());
        assert!(!found[..at].contains(code), "{} is there twice", code.as_str());
    }

    let code = Code::from_random(random);
    is_found(code, &text, code.as_str(), 300);
    is_found(code, &text, &careless(code), 300);
    let (head, tail) = code.as_str().split_at(4);
    is_found(code, &text, &format!("{head}-{tail}"), 24);
}

/// Whatever comes before it, within reason: so much that no more than the tried ones can be in it.
fn is_found(code: Code, text: &str, written: &str, reason: usize) {
    let before: String = text.chars().take(reason).collect();
    let message = format!("{before} {written}");
    assert!(candidates(&message).contains(&code), "{} is not found in {message:?}", code.as_str());
    let message = format!("{message} {text}");
    assert!(candidates(&message).contains(&code), "{} is not found in {message:?}", code.as_str());
}

/// As somebody writes it who reads a zero for an O.
fn careless(code: Code) -> String {
    code.as_str().replace('0', "o").replace('1', "l").to_ascii_lowercase()
}

/// All symbols of a text, with nothing between them.
fn symbols(text: &str) -> String {
    let symbol = |letter: char| match letter.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        other => other,
    };
    text.chars().take(LOOKED_AT).map(symbol).filter(|symbol| ALPHABET.contains(*symbol)).collect()
}
