//! Strict JSON: every property known, none twice, each of its type; and the pointer of the culprit when not.
//!
//! Bodies are read by hand from a tree, not by derived deserializers: those take arrays for objects, and cannot say
//! where in the document the trouble is.

use std::{fmt::Display, str::FromStr};

use jiff::Timestamp;
use ringtrue_engine::management::Patch;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::problem::Problem;

/// What is wrong with a document, and where (RFC 6901).
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    pub pointer: String,
    pub problem: String,
}

impl Invalid {
    pub fn new(pointer: &str, problem: impl Into<String>) -> Self {
        Invalid { pointer: pointer.to_owned(), problem: problem.into() }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Problem::bad_request(format!("`{}`: {}", invalid.pointer, invalid.problem))
    }
}

/// A JSON value that keeps repeated properties, so that they can be refused.
#[derive(Debug)]
pub enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    /// A fraction, or beyond 64 bits.
    OtherNumber,
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Boolean(_) => "a boolean",
            Node::Integer(_) | Node::OtherNumber => "a number",
            Node::Text(_) => "a string",
            Node::List(_) => "an array",
            Node::Object(_) => "an object",
        }
    }
}

/// The members of an object that have not been taken yet.
#[derive(Debug)]
pub struct Object {
    pointer: String,
    members: Vec<(String, Node)>,
}

impl Object {
    /// Reads a document that must be one object.
    pub fn parse(document: &[u8]) -> Result<Self, Invalid> {
        if document.starts_with(b"\xEF\xBB\xBF") {
            return Err(Invalid::new("", "the document begins with a byte order mark"));
        }
        let text = std::str::from_utf8(document)
            .map_err(|error| Invalid::new("", format!("not UTF-8 after byte {}", error.valid_up_to())))?;
        if text.trim().is_empty() {
            return Err(Invalid::new("", "a JSON object is missing"));
        }
        let node = serde_json::from_str(text).map_err(|error| Invalid::new("", format!("not JSON: {error}")))?;
        object(node, "")
    }

    /// An optional member. `null` counts as absent: many serialisers write it for what is not set.
    pub fn take<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node, &str) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Invalid> {
        match self.remove(name) {
            None | Some(Node::Null) => Ok(None),
            Some(node) => read(node, &self.pointer_to(name)).map(Some),
        }
    }

    /// A member that must be there.
    pub fn require<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node, &str) -> Result<T, Invalid>,
    ) -> Result<T, Invalid> {
        let value = self.replace(name, read)?;
        value.ok_or_else(|| Invalid::new(&self.pointer_to(name), "this property is required"))
    }

    /// A member of a merge patch (RFC 7396), where `null` removes a value.
    pub fn patch<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node, &str) -> Result<T, Invalid>,
    ) -> Result<Patch<T>, Invalid> {
        match self.remove(name) {
            None => Ok(Patch::Keep),
            Some(Node::Null) => Ok(Patch::Clear),
            Some(node) => read(node, &self.pointer_to(name)).map(Patch::Set),
        }
    }

    /// A member of a merge patch whose value can be replaced but not removed, so `null` is of the wrong type.
    pub fn replace<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node, &str) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Invalid> {
        self.remove(name).map(|node| read(node, &self.pointer_to(name))).transpose()
    }

    fn remove(&mut self, name: &str) -> Option<Node> {
        let index = self.members.iter().position(|(member, _)| member == name)?;
        Some(self.members.swap_remove(index).1)
    }

    /// Nothing else may be left.
    pub fn finish(self) -> Result<(), Invalid> {
        match self.members.first() {
            None => Ok(()),
            Some((name, _)) => Err(Invalid::new(&self.pointer_to(name), "this property is not known here")),
        }
    }

    fn pointer_to(&self, name: &str) -> String {
        let pointer = [&self.pointer, "/"].concat();
        // As our own names are.
        if name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return pointer + name;
        }
        let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        pointer + &shown.replace('~', "~0").replace('/', "~1")
    }
}

pub fn object(node: Node, pointer: &str) -> Result<Object, Invalid> {
    let Node::Object(members) = node else {
        return Err(Invalid::new(pointer, format!("expected an object, found {}", node.kind())));
    };
    let object = Object { pointer: pointer.to_owned(), members };
    for (index, (name, _)) in object.members.iter().enumerate() {
        if object.members[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(Invalid::new(&object.pointer_to(name), "this property occurs twice"));
        }
    }
    Ok(object)
}

pub fn text(node: Node, pointer: &str) -> Result<String, Invalid> {
    match node {
        Node::Text(text) => Ok(text),
        node => Err(Invalid::new(pointer, format!("expected a string, found {}", node.kind()))),
    }
}

/// A string in the form of some type.
pub fn parsed<T: FromStr<Err: Display>>(node: Node, pointer: &str) -> Result<T, Invalid> {
    text(node, pointer)?.parse().map_err(|error: T::Err| Invalid::new(pointer, error.to_string()))
}

pub fn boolean(node: Node, pointer: &str) -> Result<bool, Invalid> {
    match node {
        Node::Boolean(value) => Ok(value),
        node => Err(Invalid::new(pointer, format!("expected a boolean, found {}", node.kind()))),
    }
}

pub fn integer(node: Node, pointer: &str) -> Result<i64, Invalid> {
    match node {
        Node::Integer(value) => Ok(value),
        Node::OtherNumber => Err(Invalid::new(pointer, "expected a whole number")),
        node => Err(Invalid::new(pointer, format!("expected a whole number, found {}", node.kind()))),
    }
}

pub fn instant(node: Node, pointer: &str) -> Result<Timestamp, Invalid> {
    let text = text(node, pointer)?;
    super::time::parse(&text).ok_or_else(|| Invalid::new(pointer, super::time::EXPECTED))
}

/// An array of distinct values.
pub fn distinct<T: PartialEq>(
    node: Node,
    pointer: &str,
    read: impl Fn(Node, &str) -> Result<T, Invalid>,
) -> Result<Vec<T>, Invalid> {
    let Node::List(nodes) = node else {
        return Err(Invalid::new(pointer, format!("expected an array, found {}", node.kind())));
    };
    let mut values = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.into_iter().enumerate() {
        let pointer = format!("{pointer}/{index}");
        let value = read(node, &pointer)?;
        if values.contains(&value) {
            return Err(Invalid::new(&pointer, "this value occurs twice"));
        }
        values.push(value);
    }
    Ok(values)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::OtherNumber, Node::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            members.push(entry);
        }
        Ok(Node::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &[u8]) -> Result<(String, Option<i64>), Invalid> {
        let mut body = Object::parse(document)?;
        let name = body.require("name", text)?;
        let nested = body.take("nested", |node, pointer| {
            let mut nested = object(node, pointer)?;
            let size = nested.require("size", integer)?;
            nested.finish()?;
            Ok(size)
        })?;
        body.finish()?;
        Ok((name, nested))
    }

    #[test]
    fn the_culprit_is_named_by_its_pointer() {
        assert_eq!(read(br#"{"name":"a","nested":{"size":3}}"#), Ok(("a".to_owned(), Some(3))));
        assert_eq!(read(br#"{"name":"a","nested":null}"#), Ok(("a".to_owned(), None)));
        for (document, pointer, problem) in [
            (&br#"{"nested":{"size":3}}"#[..], "/name", "required"),
            (br#"{"name":null}"#, "/name", "expected a string, found null"),
            (br#"{"name":["a"]}"#, "/name", "found an array"),
            (br#"{"name":"a","nested":{"size":null}}"#, "/nested/size", "expected a whole number, found null"),
            (br#"{"name":"a","nested":null,"nested":null}"#, "/nested", "occurs twice"),
            (br#"{"name":"a","other":null}"#, "/other", "not known"),
            (br#"{"name":"a","nested":[3]}"#, "/nested", "expected an object, found an array"),
            (br#"{"name":"a","nested":{"size":1.5}}"#, "/nested/size", "whole number"),
            (br#"{"name":"a","nested":{"size":99999999999999999999}}"#, "/nested/size", "whole number"),
            (br#"{"name":"a","nested":{"size":3,"a/b~c":1}}"#, "/nested/a~1b~0c", "not known"),
            (br#"{"name":"a","nested":{"size":3,"size":4}}"#, "/nested/size", "occurs twice"),
            (br#"{"name":"a","name":"b"}"#, "/name", "occurs twice"),
            (br#"{"name":"a",}"#, "", "not JSON"),
            (br#"{"name":NaN}"#, "", "not JSON"),
            (br#"{"name":"\ud800"}"#, "", "not JSON"),
            (br#"{"name":"a"}{"name":"a"}"#, "", "not JSON"),
            (br#"["a"]"#, "", "expected an object"),
            (b"\xEF\xBB\xBF{}", "", "byte order mark"),
            (b"{\"name\":\"\xff\"}", "", "not UTF-8"),
            (b" ", "", "missing"),
        ] {
            let invalid = read(document).unwrap_err();
            assert_eq!(invalid.pointer, pointer, "{}", String::from_utf8_lossy(document));
            assert!(invalid.problem.contains(problem), "{}: {}", String::from_utf8_lossy(document), invalid.problem);
        }
    }

    #[test]
    fn a_document_nested_without_end_is_refused_without_harm() {
        let deep = [b"[".repeat(8_000), b"]".repeat(8_000)].concat();
        assert!(read(&deep).is_err());
    }
}
